"""`python -m pykvbench` is the command line."""

from pykvbench.cli import main

if __name__ == "__main__":
    main()
