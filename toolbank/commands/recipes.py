"""`toolbank recipes`."""

from __future__ import annotations

from pathlib import Path

from toolbank.commands.options import echo
from toolbank.config.assets import list_assets


def recipes() -> None:
    """List the bundled recipes and those in ./recipes."""
    found = list_assets("recipes", ".yaml")
    width = max((len(one.path.stem) for one in found), default=0)
    for one in found:
        echo(f"{one.path.stem:<{width}}  {_read_title(one.path)}")


def _read_title(path: Path) -> str:
    """The comment in a recipe's first line; "" where there is none."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    return first.lstrip("# ").rstrip(":.") if first.startswith("#") else ""
