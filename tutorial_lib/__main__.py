"""`python -m tutorial_lib`: the command line that the `workshop` script hands over to."""

from tutorial_lib.cli import main

if __name__ == "__main__":
    main()
