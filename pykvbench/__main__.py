"""`python -m pykvbench` is the command line."""

import sys


def run() -> None:
    """Load the command line and run it; Ctrl-C while it is still loading ends it as later on, with status 3."""
    try:
        from pykvbench.cli import main
    except KeyboardInterrupt:
        sys.exit(3)
    main()


if __name__ == "__main__":
    run()
