"""`python -m toolbank`: the command line, as torchrun starts it."""

from toolbank.commands.cli import main

main()
