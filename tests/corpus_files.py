"""Files in tests/corpus, each with the tools expected of it in NAME.tools.json.

`pytest --update-corpus` writes what is read now as expected: look through the difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolbank.sources.kind import ToolCollection

CORPUS = Path(__file__).with_name("corpus")


def corpus_files(folder: str) -> list[Path]:
    files = (CORPUS / folder).iterdir()
    return sorted(file for file in files if not file.name.endswith(".tools.json"))


def check_collected(
    file: Path, collected: ToolCollection, place: Path, *, update: bool
) -> None:
    """Compare tools, counts and messages; `place` is the file that was read."""
    read = {
        "tools": [
            tool.model_dump(mode="json", exclude_defaults=True)
            for tool in collected.tools
        ],
        "left_out": collected.info["left_out_examples"],
        "problems": collected.problems,
        "notes": collected.notes,
    }
    expected = file.with_name(f"{file.name}.tools.json")
    check_expected(expected, read, {str(place): file.name}, update=update)


def check_expected(
    file: Path, value: Any, names: Mapping[str, str] = {}, *, update: bool
) -> None:
    """Compare a value as JSON, in which `names` stand for paths of this machine."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    for path, name in names.items():
        text = text.replace(path, name)
    if update:
        file.write_text(f"{text}\n", "utf-8")
    assert f"{text}\n" == file.read_text("utf-8")
