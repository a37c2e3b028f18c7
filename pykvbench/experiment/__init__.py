"""The experiment: what is measured in which order, and the processes that do it."""
