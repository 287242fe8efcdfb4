"""What this project is called on a package index, how it is installed, and what is in its way."""

from importlib import metadata

# The import name and the command are `toolbank`; on the index that is somebody else's.
DISTRIBUTION = "toolbank-retrieval"
_THEIRS = "toolbank"
# What pip is given: the clone, until the distribution can be had by its name.
_FROM = "."


def install_command(extra: str) -> str:
    """The command that installs this project with an extra, to be run in a clone of it."""
    return f"pip install '{_FROM}[{extra}]' -c constraints.txt"


def explain_namesake() -> str:
    """That another distribution of our import name is installed here too; "" if none is.

    One of the two has written over files of the other, and which one Python imports is chance.
    """
    try:
        version = metadata.version(_THEIRS)
    except metadata.PackageNotFoundError:
        return ""
    return (
        f"the distribution {_THEIRS} {version} is installed here too: another project (or an early "
        f"version of this one) with the same import name, and either has files of the other. Run "
        f"`pip uninstall {_THEIRS}`, then install this one anew, in a clone of it: pip install "
        f"--force-reinstall --no-deps {_FROM}"
    )
