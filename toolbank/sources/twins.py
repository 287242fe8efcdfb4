"""Twins: finding tools that no request can tell apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.bank.twins import group_siblings, join_pairs
from toolbank.config.assets import Asset
from toolbank.system.errors import InputError

# "isnull is an alias for isna", "This is an alias method for isna", or a text that begins with
# "Alias of isna".
_ALIAS = re.compile(
    r"(?:^(?:Returns? )?|(?P<subject>[\w.]*\w)(?:\([^()]*\))? is (?:an? )?)"
    r"(?:an? )?(?:\w+ )?alias(?: \w+)? (?:for|of) (?P<object>[\w.]*\w)",
    re.IGNORECASE,
)
_ITSELF = {"this", "it", "function", "method", "class", "property", "attribute"}


def mark_twins(
    tools: Sequence[Tool], named: Sequence[Sequence[str]] = ()
) -> tuple[Tool, ...]:
    """The tools, each with the names of all its twins, in the order of the tools.

    Twins are siblings (`group_siblings`) with the same summary and parameters, a tool and the one
    that a text of either calls its alias, and those of a line of `named`; and the twins of a twin.
    Names that no tool has are passed over.
    """
    index = Bank(tuple(tools)).index
    pairs = [
        *_pair_siblings(tools, index),
        *_pair_aliases(tools, index),
        *(
            (index[line[0]], index[name])
            for line in ([name for name in names if name in index] for names in named)
            for name in line[1:]
        ),
    ]
    first = join_pairs(len(tools), pairs)
    groups: dict[int, list[str]] = {}
    for tool, number in zip(tools, first, strict=True):
        groups.setdefault(number, []).append(tool.name)
    return tuple(
        tool.model_copy(
            update={"twins": tuple(n for n in groups[number] if n != tool.name)}
        )
        for tool, number in zip(tools, first, strict=True)
    )


def find_aliases(tools: Sequence[Tool]) -> dict[str, str]:
    """The names of tools that a text of theirs, or of the other, calls an alias of another tool.

    With the other's name. Where each is called one of the other, the first keeps its name.
    """
    found: dict[str, str] = {}
    for one, other in _pair_aliases(tools, Bank(tuple(tools)).index):
        alias, name = tools[one].name, tools[other].name
        if alias != name and found.get(name) != alias:
            found[alias] = name
    return found


def read_named(file: Asset) -> list[list[str]]:
    """The lines of crawlers/<api>.twins: names of tools that are twins; after # nothing counts.

    Raises:
        InputError: it can't be read, or a line has one name alone.
    """
    try:
        text = file.path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{file.path}: can't be read ({error}).") from error
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    for number, names in enumerate(lines, 1):
        if len(names) == 1:
            raise InputError(
                f"{file.path}, line {number}: {names[0]} stands alone. Give all names of the "
                "tools that no request can tell apart, with spaces between."
            )
    return [names for names in lines if names]


def _pair_siblings(
    tools: Sequence[Tool], index: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    for group in (group for group in group_siblings(tools) if len(group) > 1):
        first: dict[str, int] = {}
        # Of those without a summary nothing says what they do.
        for tool in (one for one in group if one.summary.strip()):
            position = index[tool.name]
            parameters = json.dumps(tool.parameters, sort_keys=True)
            yield first.setdefault(parameters, position), position


def _pair_aliases(
    tools: Sequence[Tool], index: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    for position, tool in enumerate(tools):
        texts = (tool.summary, tool.description, tool.notes)
        for text in (text for text in texts if "alias" in text.lower()):
            for found in _ALIAS.finditer(" ".join(text.split())):
                subject = found["subject"] or "this"
                one = (
                    position
                    if subject.lower() in _ITSELF
                    else _resolve(subject, tool, index)
                )
                other = _resolve(found["object"], tool, index)
                if one is not None and other is not None and position in (one, other):
                    yield one, other


def _resolve(name: str, tool: Tool, index: Mapping[str, int]) -> int | None:
    """The tool that a text of another names, looked for from its class or module outwards."""
    around = tool.name.split(".")[:-1]
    for depth in range(len(around), -1, -1):
        found = index.get(".".join((*around[:depth], name)))
        if found is not None:
            return found
    return None
