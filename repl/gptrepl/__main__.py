"""`python -m gptrepl` is the command `gptrepl`."""

from .cli import main

if __name__ == "__main__":
    main()
