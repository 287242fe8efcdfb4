"""Say what a search reaches, so that an agent sees when to use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest

from toolbank.bank.records import McpCall, Tool
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_MOST_NAMES = 250
"""Characters of the names of groups; further groups are only counted."""
_LONGEST_NAME = 40
_EXAMPLES = 5
_SHORTEST, _LONGEST = 15, 60
"""Characters of an example."""


def describe_reach(tools: Sequence[Tool]) -> str:
    """Say where tools are from, how many of each, and what five of them do.

    Groups are MCP servers, other sources, or the modules of a single source. The text has at most
    some 650 characters.
    """
    groups = _group(tools)
    shown, length = list[str](), 0
    for name, members in groups:
        said = f"{one_line(name, _LONGEST_NAME)} ({len(members):,})"
        length += len(said) + 2
        if length > _MOST_NAMES:
            break
        shown.append(said)
    more = len(groups) - len(shown)
    names = ", ".join(shown) + (f" and {count(more, 'other')}" if more else "")
    examples = "; ".join(_choose([members for _, members in groups]))
    reach = f"The tools are of {names}."
    return f"{reach} Some of what they do: {examples}." if examples else reach


def _group(tools: Sequence[Tool]) -> list[tuple[str, list[Tool]]]:
    """The groups of tools by name, the largest first."""
    is_one = len({_find_origin(tool) for tool in tools}) == 1
    found: dict[str, list[Tool]] = {}
    for tool in tools:
        name = _find_module(tool) if is_one else _find_origin(tool)
        found.setdefault(name, []).append(tool)
    return sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))


def _find_origin(tool: Tool) -> str:
    if isinstance(tool.call, McpCall):
        return tool.call.source
    label = tool.sources[0] if tool.sources else tool.source
    return label.partition(":")[2] or label


def _find_module(tool: Tool) -> str:
    if isinstance(tool.call, McpCall):
        return tool.call.source
    return tool.name.rpartition(".")[0] or _find_origin(tool)


def _choose(groups: Sequence[Sequence[Tool]]) -> Iterator[str]:
    """Choose examples from all groups in turn."""
    said = [[*_list_examples(group)] for group in groups[: 4 * _EXAMPLES]]
    in_turn = chain.from_iterable(zip_longest(*said))
    yield from islice(dict.fromkeys(filter(None, in_turn)), _EXAMPLES)


def _list_examples(tools: Sequence[Tool]) -> Iterator[str]:
    """What the first tools do, in a line each."""
    for tool in tools:
        line = one_line(tool.summary.partition(". ")[0], 2 * _LONGEST)
        if _SHORTEST <= len(line) <= _LONGEST:
            yield line.rstrip(".")
