"""What changed between two readings of an API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank import Tool, read_tools
from toolbank.errors import InputError
from toolbank.files import read_json

_TEXTS = ("summary", "description", "notes", "examples")
_SHORT = 100


@dataclass(frozen=True)
class Comparison:
    """Tools by name: new ones, those that are gone, and what changed of the others.

    `renamed` holds names that are gone as tools and are now another name of one, by that one's
    name. A tool whose every field but its address and its names for prompts is the same did not
    change.
    """

    added: tuple[Tool, ...]
    removed: tuple[Tool, ...]
    renamed: dict[str, str]
    changed: dict[str, tuple[str, ...]]
    same: int

    def describe(self) -> str:
        """The comparison as text, the counts first."""
        lines = [
            f"{len(self.added):,} added, {len(self.removed):,} removed, "
            f"{len(self.renamed):,} now another name, {len(self.changed):,} changed, "
            f"{self.same:,} the same."
        ]
        lines += [f"+ {tool.name}: {_short(tool.summary)}" for tool in self.added]
        lines += [f"- {tool.name}: {_short(tool.summary)}" for tool in self.removed]
        lines += [f"= {old} is now {new}" for old, new in self.renamed.items()]
        for name, changes in self.changed.items():
            lines.append(f"~ {name}")
            lines.extend(f"    {change}" for change in changes)
        return "\n".join(lines)


def compare_crawls(old: Path, new: Path) -> str:
    """Compare the tools in two folders (of a crawl, a bank or a run) or tools.parquet files.

    Raises:
        InputError: there are no tools at one of them.
    """
    lines = [_caution(old), _caution(new)]
    comparison = compare_tools(_tools(old), _tools(new))
    return "\n".join([*(line for line in lines if line), comparison.describe()])


def compare_tools(old: Sequence[Tool], new: Sequence[Tool]) -> Comparison:
    """Compare two lists of tools by name."""
    before = {tool.name: tool for tool in old}
    after = {tool.name: tool for tool in new}
    aliases = {alias: tool.name for tool in new for alias in tool.aliases}
    gone = before.keys() - after.keys()
    changed = {
        name: tuple(_changes(before[name], after[name]))
        for name in sorted(before.keys() & after.keys())
    }
    return Comparison(
        added=tuple(after[name] for name in sorted(after.keys() - before.keys())),
        removed=tuple(before[name] for name in sorted(gone - aliases.keys())),
        renamed={name: aliases[name] for name in sorted(gone & aliases.keys())},
        changed={name: changes for name, changes in changed.items() if changes},
        same=sum(not changes for changes in changed.values()),
    )


def _tools(path: Path) -> tuple[Tool, ...]:
    places = (path / "tools.parquet", path / "bank" / "tools.parquet")
    if path.is_dir():
        for place in places:
            if place.is_file():
                return read_tools(place)
        raise InputError(
            f"{path}: no tools.parquet in it. Give the folder of a crawl or a run."
        )
    return read_tools(path)


def _caution(path: Path) -> str:
    """What to bear in mind of a crawl that did not get every page."""
    record = path / "crawl.json"
    if not record.is_file():
        return ""
    data = read_json(record)
    failed = data.get("failed", 0) if isinstance(data, dict) else 0
    if not failed:
        return ""
    return (
        f"{path}: {failed:,} pages could not be read; their tools look removed or new."
    )


def _changes(old: Tool, new: Tool) -> Iterator[str]:
    """What changed of a tool, a line each, what matters to a caller first."""
    if old.kind != new.kind:
        yield f"kind: {old.kind} -> {new.kind}"
    if old.signature != new.signature:
        yield f"signature: {_short(old.signature)} -> {_short(new.signature)}"
    yield from _parameter_changes(old.parameters, new.parameters)
    if old.returns != new.returns:
        types = [
            ", ".join(r.type for r in tool.returns if r.type) for tool in (old, new)
        ]
        if types[0] != types[1]:
            yield f"returns: {_short(types[0])} -> {_short(types[1])}"
        else:
            yield "returns: other words or structure"
    if old.raises != new.raises:
        yield "raises: changed"
    if old.deprecated != new.deprecated:
        yield (
            f"deprecated: {_short(new.deprecated)}"
            if new.deprecated
            else "no longer deprecated"
        )
    noted = [note for note in new.versions if note not in old.versions]
    for note in noted:
        about = f" ({note.parameter})" if note.parameter else ""
        yield f"{note.change} in {note.version}{about}: {_short(note.description)}"
    if not noted and old.versions != new.versions:
        yield "version notes: changed"
    texts = [name for name in _TEXTS if getattr(old, name) != getattr(new, name)]
    if texts:
        yield f"words: {', '.join(texts)}"
    if old.see_also != new.see_also:
        yield "see also: changed"
    if old.aliases != new.aliases:
        yield f"other names: {', '.join(new.aliases) or 'none'}"


def _parameter_changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    needed = set(old.get("required", ())), set(new.get("required", ()))
    for name in [name for name in after if name not in before]:
        is_required = ", required" if name in needed[1] else ""
        yield f"parameter {name}: added{is_required}"
    for name in before:
        if name not in after:
            yield f"parameter {name}: removed"
            continue
        if (name in needed[0]) != (name in needed[1]):
            yield f"parameter {name}: {'now required' if name in needed[1] else 'no longer required'}"
        yield from _schema_changes(name, before[name], after[name])
    common = [name for name in after if name in before]
    if common != [name for name in before if name in after]:
        yield "parameters: in another order"


def _schema_changes(
    name: str, old: dict[str, Any], new: dict[str, Any]
) -> Iterator[str]:
    for key in sorted((old.keys() | new.keys()) - {"description"}):
        if old.get(key) != new.get(key):
            values = [
                _short(json.dumps(schema[key], ensure_ascii=False))
                if key in schema
                else "none"
                for schema in (old, new)
            ]
            yield f"parameter {name}: {key} {values[0]} -> {values[1]}"
    if old.get("description") != new.get("description"):
        yield f"parameter {name}: other words"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 3]}..."
