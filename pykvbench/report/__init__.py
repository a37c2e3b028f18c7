"""How a result is shown: terminal tables, the plot, the issue text."""
