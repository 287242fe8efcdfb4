"""Showing why something that a source has is no tool of a run."""

from __future__ import annotations

from toolbank.run.folder import RunFolder
from toolbank.system.files import read_json
from toolbank.system.terminal import one_line

_LONGEST_REASON = 200


def explain_left_out(folder: RunFolder, name: str) -> str:
    """Why what goes by this name is no tool; "" where the sources have not noted it.

    Raises:
        InputError: sources.json is damaged.
    """
    path = folder.bank / "sources.json"
    for source in read_json(path).get("sources", ()) if path.is_file() else ():
        what = f"{one_line(name, _LONGEST_REASON)}: no tool of this run, though it is in {source['source']}"
        if name in source.get("undocumented", ()):
            return f"{what}. It has no docstring; write one to have it as a tool."
        for reason, names in source.get("left_out_examples", {}).items():
            if name in names:
                return f"{what}. It was left out: {reason}."
    return ""
