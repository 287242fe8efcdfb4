"""What is said of tools that were read: a line each, and what is missing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence

from toolbank.bank.records import Tool
from toolbank.sources.kind import Collected
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_LONGEST_NAME = 48
_LONGEST_LINE = 1000
_NARROWEST = 20


def tabulate(tools: Sequence[Tool]) -> Iterator[str]:
    """A line a tool: name, kind, what is missing, and its summary as wide as the terminal."""
    columns = shutil.get_terminal_size((100, 24)).columns
    names = [one_line(tool.name, _LONGEST_LINE) for tool in tools]
    width = min(max(map(len, names), default=0), _LONGEST_NAME)
    kind_width = max((len(tool.kind) for tool in tools), default=0)
    for name, tool in zip(names, tools, strict=True):
        marks = f"({', '.join(missing)}) " if (missing := find_missing(tool)) else ""
        lead = f"{name:<{width}}  {tool.kind:<{kind_width}}  {marks}"
        room = max(columns - len(lead), _NARROWEST)
        said = tool.summary or tool.description
        yield f"{lead}{one_line(said, room)}".rstrip()
    yield ""
    yield from summarise(tools)


def find_missing(tool: Tool) -> list[str]:
    """What a search and a model would want to know of a tool and nothing says."""
    missing = []
    if not tool.summary.strip():
        missing.append("no summary" if tool.description.strip() else "no description")
    if not tool.parameters.get("properties"):
        missing.append("no parameters")
    return missing


def summarise(tools: Sequence[Tool]) -> Iterator[str]:
    """How many tools there are by kind, and of how many something is missing."""
    kinds = Counter(tool.kind for tool in tools)
    by_kind = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    yield f"{count(len(tools), 'tool')} ({by_kind})."
    missing = Counter(what for tool in tools for what in find_missing(tool))
    schemas = [
        schema
        for tool in tools
        for schema in tool.parameters.get("properties", {}).values()
    ]
    bare = sum(
        not (
            isinstance(schema, dict) and (schema.get("description") or "$ref" in schema)
        )
        for schema in schemas
    )
    said = [f"{what}: {number:,}" for what, number in missing.most_common()]
    if bare:
        said.append(f"parameters without a description: {bare:,} of {len(schemas):,}")
    yield f"Missing: {'; '.join(said)}." if said else "Nothing is missing."


def describe_left_out(collected: Collected) -> Iterator[str]:
    """Lines on what became no tool: notes, problems, and the counts that none of these says."""
    lines = (*collected.notes, *collected.problems)
    yield from lines
    for source in collected.info.get("sources", ()):
        examples = source.get("left_out_examples", {})
        for reason, number in source.get("left_out", {}).items():
            if any(reason in line for line in lines):
                continue
            names = ", ".join(map(str, examples.get(reason, ())))
            yield (
                f"{source.get('source')}: {number:,} left out, {reason}"
                f"{names and ', such as '}{names}"
            )
