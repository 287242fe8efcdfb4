"""Files of sources in tests/corpus, each with the tools expected of it in NAME.tools.json.

`pytest --update-corpus` writes what is read now as expected: look through the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

from toolbank.sources.kind import Collected

CORPUS = Path(__file__).parents[1] / "corpus"


def corpus_files(folder: str) -> list[Path]:
    files = (CORPUS / folder).iterdir()
    return sorted(file for file in files if not file.name.endswith(".tools.json"))


def check_collected(
    file: Path, collected: Collected, place: Path, *, update: bool
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
    text = json.dumps(read, indent=1, ensure_ascii=False).replace(str(place), file.name)
    expected = file.with_name(f"{file.name}.tools.json")
    if update:
        expected.write_text(f"{text}\n", "utf-8")
    assert f"{text}\n" == expected.read_text("utf-8")
