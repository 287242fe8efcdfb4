"""Showing a tool of a run: what it is, what it takes, and which requests use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from toolbank.bank.files import read_frame, read_tools
from toolbank.bank.records import Tool
from toolbank.commands.show.asks import list_asks
from toolbank.run.folder import RunFolder
from toolbank.system.terminal import one_line

_REQUESTS = 10
_LONGEST_NAME, _LONGEST_TEXT, _LONGEST_SIGNATURE = 200, 160, 1_000
_NAMES = 10
_NEAREST = 3
_ALIKE = 0.3


def find_tool(folder: RunFolder, name: str) -> Tool | None:
    """The tool of this name, or else the first with this alias; None where there is none.

    Raises:
        InputError: tools.parquet is damaged.
    """
    path = folder.bank / "tools.parquet"
    tools = read_tools(path) if path.is_file() else ()
    named = (tool for tool in tools if tool.name == name)
    return next(named, next((tool for tool in tools if name in tool.aliases), None))


def name_nearest(folder: RunFolder, name: str) -> str:
    """The tools that are named most like it, as a sentence; "" where nothing is like it.

    Raises:
        InputError: tools.parquet is damaged.
    """
    path = folder.bank / "tools.parquet"
    known: dict[str, str] = {}
    for tool in read_tools(path) if path.is_file() else ():
        # People leave out what a name begins with.
        words = tool.name.split(".")
        for start in range(len(words)):
            known.setdefault(".".join(words[start:]).lower(), tool.name)
    near = get_close_matches(name.lower(), known, n=len(known) or 1, cutoff=_ALIKE)
    names = list(dict.fromkeys(known[alike] for alike in near))[:_NEAREST]
    said = ", ".join(one_line(one, _LONGEST_NAME) for one in names)
    return f"The nearest tools are {said}. " if said else ""


def show_tool(folder: RunFolder, tool: Tool) -> str:
    """The tool's name, description, parameters, some of the requests that use it, and its asks.

    Raises:
        InputError: queries.parquet, or a file of the asks, is damaged.
        ToolbankError: the journal can't be read.
    """
    lines = [f"{one_line(tool.name, _LONGEST_NAME)}, a {tool.kind} of {tool.source}"]
    if not tool.source:
        lines = [f"{one_line(tool.name, _LONGEST_NAME)}, a {tool.kind}"]
    if tool.aliases:
        lines.append(f"also {_list_names(tool.aliases)}")
    if tool.twins:
        lines.append(f"no request can tell it from {_list_names(tool.twins)}")
    signature = one_line(tool.signature, _LONGEST_SIGNATURE)
    lines += [text for text in (signature, tool.summary, tool.description) if text]
    lines += ["parameters:", *(list(_list_parameters(tool.parameters)) or ["  none"])]
    return "\n".join([*lines, *_list_requests(folder, tool), *list_asks(folder, tool)])


def _list_names(names: Sequence[str]) -> str:
    said = ", ".join(one_line(name, _LONGEST_NAME) for name in names[:_NAMES])
    return said + (f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else "")


def _list_parameters(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, found in schema.get("properties", {}).items():
        about = found if isinstance(found, dict) else {}
        kind = about.get("type", "any")
        kinds = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
        need = "" if name in required else ", optional"
        text = one_line(str(about.get("description", "")), _LONGEST_TEXT)
        yield f"  {one_line(name, _LONGEST_NAME)} ({kinds}{need})  {text}".rstrip()


def _list_requests(folder: RunFolder, tool: Tool) -> Iterator[str]:
    import polars as pl

    path = folder.bank / "queries.parquet"
    if not path.is_file():
        yield "requests: none are written yet"
        return
    is_named = pl.element().is_in([tool.name, *tool.aliases])
    uses = pl.col("tools").list.eval(is_named).list.any()
    found = read_frame(path).filter(uses).select("id", "split", "query")
    yield f"requests that use it: {found.height:,}"
    for name, split, text in found.head(_REQUESTS).iter_rows():
        yield f"  {name} ({split or 'no split'})  {one_line(text, _LONGEST_TEXT)}"
    if found.height > _REQUESTS:
        yield f"  and {found.height - _REQUESTS:,} more"
