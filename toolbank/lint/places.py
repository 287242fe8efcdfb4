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
# They begin with plain characters, which `re` finds many times faster.
_DEFINED = re.compile(r"\n[ \t]*(?:async\s+)?(?:def|class)\s+(?P<def>\w+)")
_NAME = re.compile(
    r"""name(?<!\wname)["']?\s*:\s*(?P<name>"(?:[^"\\\n]|\\.)*"|[^\s,"'}]+)"""
)
_KEY = re.compile(r"""\n[ \t{-]*["']?(?P<key>[^\s"':]+)["']?[ \t]*:""")


@dataclass(frozen=True)
class ToolPlace:
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

    @property
    def all_files(self) -> list[Path]:
        """The files among them."""
        given = (*self.files.values(), self.default)
        return [path for path in given if path is not None and path.is_file()]

    def find(self, tool: Tool) -> ToolPlace:
        """Return the place of a tool."""
        label = tool.sources[0] if tool.sources else ""
        places = self._lines.get(label, {}).get(_key(tool), [])
        # Of several definitions of a name, that of the most similar module counts.
        names = {*tool.name.split(".")}
        path, line = max(
            places,
            key=lambda place: len(names & {*place[0].with_suffix("").parts}),
            default=(self.files.get(label, self.default), None),
        )
        if path is not None and path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        return ToolPlace(path.as_posix() if path else "", line, tool.url or label)

    @cached_property
    def _lines(self) -> dict[str, dict[str, list[tuple[Path, int]]]]:
        """For the label of each source, the places of each key of a tool; the first counts."""
        found: dict[str, dict[str, list[tuple[Path, int]]]] = {}
        for label, root in self.files.items():
            keys = found.setdefault(label, {})
            for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
                for key, line in _list_keys(path):
                    keys.setdefault(key, []).append((path, line))
        return found


def _key(tool: Tool) -> str:
    if isinstance(tool.call, HttpCall):
        return f"{tool.call.method.lower()} {tool.call.path}"
    if isinstance(tool.call, McpCall) and not tool.source.startswith("functions:"):
        return f"key {tool.call.source}"
    if isinstance(tool.call, PythonCall):
        return f"def {tool.call.path.rpartition('.')[2]}"
    return f"name {tool.name}"


def _list_keys(path: Path) -> Iterator[tuple[str, int]]:
    """The keys of tools in a file, with their lines."""
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return
    text = "\n" + path.read_text("utf-8", errors="replace")
    for pattern in (_DEFINED,) if path.suffix == ".py" else (_NAME, _KEY):
        line, end, route = 0, 0, ""
        for found in pattern.finditer(text):
            kind = found.lastgroup or ""
            word, start = found[kind], found.start(kind)
            line, end = line + text.count("\n", end, start), start
            if kind == "key" and word.startswith("/"):
                route = word
            elif kind == "key" and route and word.lower() in _METHODS:
                yield f"{word.lower()} {route}", line
            yield f"{kind} {_unquote(word)}", line


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text
