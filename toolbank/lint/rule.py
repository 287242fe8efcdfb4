"""Rules, their findings, and the catalogue that they check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from toolbank.bank.records import McpCall, Tool
from toolbank.encoders.base import Encoder
from toolbank.retrievers.base import all_words, split_words
from toolbank.retrievers.lexical import LexicalIndex

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class LintFinding:
    """One violation of a rule by a tool.

    `others` are the names of the other tools concerned, `parameter` the path of a parameter, such
    as "filter.x". A severity of None is that of the rule.
    """

    tool: Tool
    reason: str
    parameter: str = ""
    others: tuple[str, ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True)
class Rule:
    """A rule: its name, its usual severity, what it finds, what to do, and the check."""

    name: str
    severity: Severity
    summary: str
    remedy: str
    check: Callable[[CheckedTools], Iterator[LintFinding]]


@dataclass(frozen=True, eq=False)
class CheckedTools:
    """The tools that are checked, with what several rules need of them.

    With an `encoder`, tools are searched by vectors, in addition to BM25.
    """

    tools: Sequence[Tool]
    encoder: Encoder | None = None

    @cached_property
    def index(self) -> LexicalIndex:
        """The BM25 index of the tools, that of the retriever `bm25`."""
        return LexicalIndex.of([all_words(tool) for tool in self.tools])


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


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Cut the endings of verbs and plurals, so that "creates" and "creating" are equal."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word[: -len(ending)]
            break
    word = word.removesuffix("e") if len(word) > _SHORTEST_STEM else word
    return f"{word[:-1]}i" if word.endswith("y") else word


@lru_cache(maxsize=100_000)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text or name; "userId" has two words."""
    return frozenset(map(stem, {*split_words(text).lower().split()}))


@lru_cache(maxsize=100_000)
def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that say what it is about."""
    return stems(text) - _FILLER_STEMS


_FILLER_STEMS = _FILLER | {*map(stem, _FILLER)}


_VERBS = frozenset(
    (
        "add",
        "create",
        "delete",
        "get",
        "insert",
        "list",
        "patch",
        "remove",
        "set",
        "update",
    )
)


def own_name(tool: Tool) -> str:
    """Return a tool's name without its server, package or class.

    It has two parts if the last one is a bare verb, as in `projects.operations.get`.
    """
    if isinstance(tool.call, McpCall):
        return tool.call.tool
    last = re.split(r"[./]", tool.name.rstrip("./"))[-1]
    before = tool.name.removesuffix(last)
    if last.lower() in _VERBS and before.endswith("."):
        return f"{re.split(r'[./]', before)[-2]}.{last}"
    return last


def name_some(names: Sequence[str], most: int = 3) -> str:
    """List names in backquotes, the rest as a number."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    more = len(names) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n+")


def find_gist(tool: Tool) -> str:
    """Return the first sentence of the description, or ""."""
    return next(iter(split_sentences(tool)), "")


def split_sentences(tool: Tool) -> list[str]:
    """Return the sentences of a description, or its lines."""
    return [one for one in _SENTENCE.split(tool.full_description) if one.strip()]
