"""`python -m toolbank`: the command line, as torchrun starts it."""

from toolbank.cli import main

main()
