"""What is said of the source that a recipe was written for."""

from __future__ import annotations

from pathlib import Path

from toolbank.commands.tools.describe import summarise
from toolbank.sources.kind import Collected, SourceConfig


def describe_source(source: SourceConfig, found: Collected | str, recipe: Path) -> str:
    """What it is, how many tools it has, what is missing, and how many others were left out."""
    if isinstance(found, str):
        return f"Found {source.label}. {found}"
    left_out = sum(
        number
        for one in found.info["sources"]
        for number in one.get("left_out", {}).values()
    )
    lines = [f"Found {source.label}:", *summarise(found.tools)]
    if left_out or found.problems:
        lines.append(
            f"Left out: {left_out:,}, or read in part. All of them: toolbank tools {recipe}"
        )
    return "\n".join(lines)
