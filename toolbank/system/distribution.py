"""What this project is called on a package index, and how its extras are installed."""

# The import name and the command are `toolbank`; on the index that is somebody else's.
DISTRIBUTION = "toolbank-retrieval"
# What pip is given: the clone, until the distribution can be had by its name.
_FROM = "."


def install_command(extra: str) -> str:
    """The command that installs this project with an extra, to be run in a clone of it."""
    return f"pip install '{_FROM}[{extra}]' -c constraints.txt"
