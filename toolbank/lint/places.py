"""Find the file and line of a tool in what its source was read from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolbank.bank.records import HttpCall, McpCall, PythonCall, Tool

_MOST_BYTES = 64 * 2**20
_METHODS = frozenset("get put post delete options head patch trace query".split())  # noqa: SIM905
_NAME = re.compile(r"""\bname["']?\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,"']+)""")
_DEFINED = re.compile(r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)")


@dataclass(frozen=True)
class Place:
    """A file, with the line if it is known, and the URL or the source of a tool."""

    file: str = ""
    line: int | None = None
    address: str = ""

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.file}:{self.line}"
        return self.address or self.file


@dataclass(frozen=True, eq=False)
class Places:
    """Finds places in the files and folders of sources, by their label.

    Lines are found by text: an operation by its path and method, a function by its name, an object
    of a folder by its definition, an MCP server by its key. Files are read once, up to 64 MB each.
    `default` is the file of tools whose source has none, such as a recipe.
    """

    files: Mapping[str, Path]
    default: Path | None = None

    def find(self, tool: Tool) -> Place:
        """Return the place of a tool."""
        label = tool.sources[0] if tool.sources else ""
        root = self.files.get(label)
        if root is None:
            file = "" if self.default is None else _relative(self.default)
            return Place(file, None, tool.url or label)
        if root.is_dir():
            path = tool.call.path if isinstance(tool.call, PythonCall) else tool.name
            found = self._definitions.get(label, {}).get(path.rpartition(".")[2], [])
            parts = set(path.split("."))
            best = max(
                found,
                key=lambda one: len(parts & {*one[0].with_suffix("").parts}),
                default=None,
            )
            if best is not None:
                return Place(_relative(root / best[0]), best[1], tool.url or label)
            return Place(_relative(root), None, tool.url or label)
        line = self._lines.get(label, {}).get(_key(tool))
        return Place(_relative(root), line, tool.url or label)

    @cached_property
    def _lines(self) -> dict[str, dict[str, int]]:
        """For the label of each file, the first line of each key of a tool."""
        return {
            label: dict(reversed([*_list_keys(path)]))
            for label, path in self.files.items()
            if path.is_file()
        }

    @cached_property
    def _definitions(self) -> dict[str, dict[str, list[tuple[Path, int]]]]:
        """For the label of each folder, the definitions by name: modules and lines."""
        found: dict[str, dict[str, list[tuple[Path, int]]]] = {}
        for label, root in self.files.items():
            for path in sorted(root.rglob("*.py")) if root.is_dir() else ():
                module = path.relative_to(root)
                for number, line in _read_lines(path):
                    if match := _DEFINED.match(line):
                        named = found.setdefault(label, {}).setdefault(match[1], [])
                        named.append((module, number))
        return found


def _key(tool: Tool) -> str:
    if isinstance(tool.call, HttpCall):
        return f"{tool.call.method.lower()} {tool.call.path}"
    if isinstance(tool.call, McpCall) and not tool.source.startswith("functions:"):
        return f"key {tool.call.source}"
    return f"name {tool.name}"


def _list_keys(path: Path) -> Iterator[tuple[str, int]]:
    """The keys of tools in a file, with their lines."""
    route = ""
    for number, line in _read_lines(path):
        if "name" in line:
            for name in _NAME.findall(line):
                yield f"name {_unquote(name)}", number
        head, colon, _ = line.partition(":")
        key = head.strip(" \t\"'-{")
        if not colon:
            continue
        if key.startswith("/"):
            route = key
        elif route and key.lower() in _METHODS:
            yield f"{key.lower()} {route}", number
        else:
            yield f"key {key}", number


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from enumerate(file, 1)


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _relative(path: Path) -> str:
    """The path from the current folder, if it is inside."""
    here = Path.cwd()
    whole = path.absolute()
    return (whole.relative_to(here) if whole.is_relative_to(here) else path).as_posix()
