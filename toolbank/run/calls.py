"""The accounts of a stage that asks a model: its calls, as its file has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.system.files import read_json, write_json

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.run.folder import RunFolder


def refresh_calls(
    path: Path, config: EngineConfig, folder: RunFolder
) -> tuple[Path, ...]:
    """Write the calls of a done stage as the journal and the prices have them now.

    They stand in the JSON file at `path` under "calls". Gives the file if it was changed.
    """
    from toolbank.journal import Journal
    from toolbank.llm.accounts import describe_calls

    if not folder.journal.is_file():
        return ()
    info = read_json(path)
    with Journal(folder.journal) as journal:
        calls = describe_calls(journal.usage(), config)
    if info.get("calls") == calls:
        return ()
    write_json(path, {**info, "calls": calls})
    return (path,)
