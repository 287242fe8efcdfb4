"""What the experiments of papers share: the result, its folder, prompts and poolings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from toolbank.system.files import json_text, write_text
from toolbank.system.folders import FolderKind, replacing

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
            InputError: as of `check_folder`, or a file there was changed since it was written.
            ToolbankError: the folder can't be written to.
        """
        texts = {RECORD: json_text(self.record), "result.txt": self.text + "\n"}
        with replacing(out, EXPERIMENT) as made:
            for name, text in {**texts, **self.files}.items():
                write_text(made / name, text)


Pooling = Literal["mean", "sum", "last", "mask"]
"""How the states of a text's tokens become one vector; "last" is that of its last token."""

TEXT = "{text}"
ONE_WORD = 'This sentence: "{text}" means in one word:'
"""The prompt of PromptEOL (arXiv 2307.16645), whose last token's state is the vector."""

PROMPTS = {
    "plain": TEXT,
    "semantic": ONE_WORD,
    "pie": "The essence of an instruction is its task intention. With this in mind, given the "
    f"instruction below: {TEXT} after thinking step by step, the task of the given instruction is:",
}
"""By name: the instruction alone; the prompt of PromptEOL; that of PIE (arXiv 2409.19680)."""
