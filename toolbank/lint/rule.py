"""Rules, their findings, and the catalogue that they check."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.encoders.base import Encoder
from toolbank.retrievers.base import split_words

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

T = TypeVar("T")


@dataclass(frozen=True)
class LintFinding:
    """One fault of a tool, or of several with the same cause.

    `others` are the names of the other tools concerned, `parameter` the path of a parameter, such
    as "filter.x".
    """

    tool: Tool
    severity: Severity
    reason: str
    remedy: str
    others: tuple[str, ...] = ()
    parameter: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule: its name, what it finds, and the check."""

    name: str
    summary: str
    check: Callable[[CheckedTools], Iterator[LintFinding]]


@dataclass(frozen=True, eq=False)
class CheckedTools:
    """The tools to check; with an `encoder`, they are searched by vectors, too."""

    tools: Sequence[Tool]
    encoder: Encoder | None = None


def prefix(tool: Tool) -> str:
    """Return the part of a name that is a server, package or class, such as "numpy.linalg."."""
    if isinstance(tool.call, McpCall):
        return tool.name.removesuffix(tool.call.tool)
    found = re.match(r".*[./](?=[^./])", tool.name)
    return found[0] if found and not isinstance(tool.call, HttpCall) else ""


def own_name(tool: Tool) -> str:
    """Return a tool's name without its prefix."""
    return tool.name[len(prefix(tool)) :]


def scope(tool: Tool) -> str:
    """Return the server or the top package of a tool, or "" for operations and bare names."""
    if isinstance(tool.call, McpCall):
        return tool.call.source
    return re.split(r"[./]", prefix(tool))[0]


def is_replaced(tool: Tool) -> bool:
    """Whether a tool is deprecated, or says that it stands for another one."""
    return bool(tool.deprecated or _REPLACED.search(tool.full_description))


_REPLACED = re.compile(
    r"(?i)\b(alias (of|for)|(?<!not )deprecated|legacy|closing down|shorthand for)\b"
)
_FILLER = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by for from given in into is it its new of on or specific specified "
        "that the their them these this to using via was will with you your tool function method "
        "allow used provided",
    )
)
_ENDINGS = ("ing", "ed", "es", "s")
_SHORTEST_STEM = 3
_WORD = re.compile(r"\w+|[^\w\s.,;:'\"`]")


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """Cut the endings of verbs and plurals, so that "creates" and "creating" are equal."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word[: -len(ending)]
            break
    word = word.removesuffix("e") if len(word) > _SHORTEST_STEM else word
    return f"{word[:-1]}i" if word.endswith("y") else word


_FILLER_STEMS = _FILLER | {*map(_stem, _FILLER)}


@lru_cache(maxsize=100_000)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words of a name or text; "userId" has two words."""
    return tuple(map(_stem, split_words(text).lower().split()))


def text_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words and symbols of a text, such as "x", "<", "y"."""
    return tuple(map(_stem, _WORD.findall(text.lower())))


def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that say what it is about."""
    return frozenset(stems(text)) - _FILLER_STEMS


READING = content_words("get list return retrieve fetch describe show find")
"""The stems of verbs that only read."""


def group_by(
    items: Iterable[T], key: Callable[[T], Hashable | None]
) -> list[tuple[T, ...]]:
    """Group items with the same key, in the order of the first; None leaves an item out."""
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        if (value := key(item)) is not None:
            groups[value].append(item)
    return [*map(tuple, groups.values())]


def name_some(names: Sequence[str], most: int = 3) -> str:
    """List names in backquotes, the rest as a number."""
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def and_others(tools: Sequence[Tool]) -> str:
    """List the tools after the first, which have the same fault, or return ""."""
    others = [tool.name for tool in tools[1:]]
    return f"; likewise {name_some(others)}" if others else ""
