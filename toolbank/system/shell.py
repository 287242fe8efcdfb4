"""Commands that the user is told to type."""

import shlex
from pathlib import Path


def command(name: str, folder: Path) -> str:
    """`toolbank NAME FOLDER`, as a shell takes it."""
    return f"toolbank {name} {shlex.quote(str(folder))}"


def advise_to_finish(run: Path) -> str:
    """What to type where something is not there yet that a run makes."""
    return f"To finish the run: {command('run', run)}"
