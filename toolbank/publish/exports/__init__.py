"""A bank in the formats of other programs and libraries: one function for each format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.publish.exports.kind import ExportKind, count_unknown
from toolbank.system.folders import FolderKind, replacing
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank

EXPORTS: Registry[ExportKind] = Registry(
    what="export format",
    group="toolbank.exports",
    kind=ExportKind,
    own={
        "datasets": "toolbank.publish.exports.rows:DATASETS",
        "jsonl": "toolbank.publish.exports.rows:JSONL",
        "toolbank": "toolbank.publish.exports.rows:TOOLBANK",
        "beir": "toolbank.publish.exports.retrieval:BEIR",
        "mteb": "toolbank.publish.exports.retrieval:MTEB",
        "toolret": "toolbank.publish.exports.retrieval:TOOLRET",
        "sentence-transformers": "toolbank.publish.exports.training:KIND",
        "functions": "toolbank.publish.exports.functions:FUNCTIONS",
        "anthropic": "toolbank.publish.exports.functions:ANTHROPIC",
        "gemini": "toolbank.publish.exports.functions:GEMINI",
        "mcp": "toolbank.publish.exports.functions:MCP",
    },
)
"""Formats by `--format`; plug-ins add theirs by an entry point."""

_EXPORT = FolderKind("export", former="toolbank-export.json")


def export_bank(bank: Bank, form: str, folder: Path) -> list[Path]:
    """Write a bank to a folder in one of `EXPORTS`, and return the files and folders.

    Queries have their merged labels as tools. The files are complete before they replace an
    earlier export. A message says how many labels a format omits.

    Raises:
        InputError: the format is unknown, or the folder has other files.
        ToolbankError: the folder can't be written to.
    """
    kind = EXPORTS.find(form, "--format")
    written = _write(folder, kind, partial(kind.write, bank))
    if kind.known_only and (unknown := count_unknown(bank)):
        print_message(
            f"{count(unknown, 'label names', 'labels name')} no tool of the bank, and the format "
            f"{form} omits {'it' if unknown == 1 else 'them'}."
        )
    return written


def export_folder(bank: Path, form: str, folder: Path) -> list[Path]:
    """Export a bank's folder as `export_bank` does, row by row where the format allows it.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout; or as of
            `export_bank`.
        ToolbankError: as of `export_bank`.
    """
    from toolbank.bank.bank import Bank

    kind = EXPORTS.find(form, "--format")
    if kind.stream is None:
        return export_bank(Bank.load(bank), form, folder)
    return _write(folder, kind, partial(kind.stream, bank))


def _write(folder: Path, kind: ExportKind, write: Callable[[Path], None]) -> list[Path]:
    with replacing(folder, _EXPORT, optional=kind.optional) as made:
        write(made)
        names = sorted(path.name for path in made.iterdir())
    return [folder / name for name in names]
