"""`python -m sash` is `sash`."""

from sash.cli.main import main

if __name__ == "__main__":
    main()
