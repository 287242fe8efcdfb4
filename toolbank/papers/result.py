"""What an experiment found, and the folder that it is left in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from toolbank.commands.options import echo
from toolbank.system.files import json_text, write_text
from toolbank.system.folders import FolderKind, check_folder, replacing

RECORD = "result.json"
"""The file of what an experiment found, in its folder."""

EXPERIMENT = FolderKind("experiment")


@dataclass(frozen=True)
class Result:
    """What an experiment found: `record` as plain JSON, `text` for people.

    `files` are texts by their names, such as a figure, "split.svg".
    """

    record: Mapping[str, Any]
    text: str
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, out: Path) -> None:
        """Leave result.json, result.txt and the files in a folder.

        Raises:
            InputError: as of `check_out`, or a file there was changed since it was written.
            ToolbankError: the folder can't be written to.
        """
        texts = {RECORD: json_text(self.record), "result.txt": self.text + "\n"}
        with replacing(out, EXPERIMENT) as made:
            for name, text in {**texts, **self.files}.items():
                write_text(made / name, text)


def check_out(out: Path) -> None:
    """Refuse a folder that holds anything but an experiment's result.

    Raises:
        InputError: it does, is the folder of a run, or no folder can be there.
    """
    check_folder(out, EXPERIMENT)


DataOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder of the paper's data.")
]
OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder for what comes out.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the figures as JSON, not as tables.")
]


def leave(result: Result, out: Path, as_json: bool) -> None:
    """Write what an experiment found to its folder, and print it."""
    result.write(out)
    echo(json_text(result.record).rstrip() if as_json else result.text)
