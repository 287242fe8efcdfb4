"""Rules on tools with the same description, and on those that their own words do not find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import blocks, cosine_scores
from toolbank.bank.records import Tool
from toolbank.lint.rule import (
    READING,
    CheckedTools,
    LintFinding,
    Severity,
    content_words,
    group_by,
    is_replaced,
    name_some,
    own_name,
    prefix,
    scope,
    stems,
    text_stems,
)
from toolbank.retrievers.base import all_words, title_and_summary
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

Group = tuple[Tool, ...]

_MEMBERS = frozenset(("method", "property"))
_ARTICLES = frozenset(("a", "an", "the"))
_VERBS = frozenset(
    stems("add create delete get list patch remove set start stop update")
)
_NO_SERVICE = frozenset(("mcp", "server"))
_OTHER = "their parameters differ"
_SHOWN = 3


def find_same(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools with the same description that names and parameters do not tell apart.

    Tools with the same own name are one finding for each set of servers or classes. Tools of a
    server or package with different names are one, too, if their parameters have the same names, or
    if their verbs differ: then the description of one was copied.
    """
    copies = group_by(catalogue.tools, _text_key)
    named = [same for copy in copies for same in group_by(copy, _name_key)]
    for groups in group_by(filter(_is_repeated, named), _owners):
        yield _report(groups, same_name=True)
    firsts = [[same[0] for same in group_by(copy, _name_key)] for copy in copies]
    copied = [same for tools in firsts for same in group_by(tools, scope)]
    for groups in group_by(filter(_is_copied, copied), _cause):
        yield _report(groups, same_name=False)


def _text_key(tool: Tool) -> tuple[str, ...] | None:
    """The words of a description without articles and endings, or None without words."""
    words = [one for one in text_stems(tool.full_description) if one not in _ARTICLES]
    return tuple(words) if any(map(str.isalnum, words)) else None


def _name_key(tool: Tool) -> tuple[str, ...]:
    """The words of a tool's own name in any order."""
    return tuple(sorted(stems(own_name(tool)))) or (tool.name,)


def _are_members(group: Sequence[Tool]) -> bool:
    return all(tool.kind in _MEMBERS for tool in group)


def _owners(group: Group) -> tuple[str, ...]:
    return () if _are_members(group) else tuple(map(prefix, group))


def _is_repeated(group: Group) -> bool:
    """Whether neither parameters nor the names of services tell the tools apart."""
    services = [{*re.findall(r"[^\W_]+", scope(tool).lower())} for tool in group]
    shared = set.intersection(*services) - _NO_SERVICE
    return len(group) > 1 and (bool(shared) or _compare(group) != _OTHER)


def _is_copied(group: Group) -> bool:
    verbs = {_VERBS.intersection(stems(own_name(tool))) for tool in group}
    return len(group) > 1 and (len(verbs) > 1 or _compare(group) != _OTHER)


def _cause(group: Group) -> tuple[frozenset[str], ...]:
    """The server or package, or else the words in which the names differ."""
    if scope(group[0]):
        return (frozenset((scope(group[0]),)),)
    words = [frozenset(stems(tool.name)) for tool in group]
    return tuple(one - frozenset.intersection(*words) for one in words)


def _report(groups: Sequence[Group], *, same_name: bool) -> LintFinding:
    tools = [tool for group in groups for tool in group]
    severity: Severity = "warning"
    if same_name and _are_members(tools):
        severity = "note"
    elif same_name and all(_compare(group) != _OTHER for group in groups):
        severity = "error"
    is_exact = all(len({tool.full_description for tool in g}) == 1 for g in groups)
    first, *more = [
        f"{name_some([tool.name for tool in group])} ({_compare(group)})"
        for group in groups
    ]
    reason = (
        f"{first} have {'' if is_exact else 'nearly '}the same description, "
        f'"{one_line(tools[0].summary or tools[0].description, _QUOTED)}"'
    )
    if more:
        reason += f"; so do {'; '.join(more[:_SHOWN])}"
    if len(more) > _SHOWN:
        reason += f"; and {count(len(more) - _SHOWN, 'more group')}"
    return LintFinding(
        tools[0],
        severity,
        reason,
        "If they do the same, keep one, or mark the others as its aliases. Else say in each "
        "description what sets it apart",
        others=tuple(tool.name for tool in tools[1:]),
    )


def _compare(group: Sequence[Tool]) -> str:
    names = [sorted(tool.parameters.get("properties", {})) for tool in group]
    if any(names[0] != one for one in names):
        return _OTHER
    if any(tool.parameters != group[0].parameters for tool in group):
        return "their parameters have the same names"
    return "their parameters are the same" if names[0] else "no parameters are listed"


Score = Callable[[Sequence[str]], NDArray[np.float32]]
"""Scores [n_texts, n_tools] of texts as requests."""

_LEXICAL = "BM25"
_TOP = 5
"""The number of tools that an agent usually gets from a search."""
_MARGIN = 1.02
"""Scores that differ by less count as equal."""
_QUOTED = 100
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n+")


def find_unreachable(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools that their own first sentence does not rank among the top 5.

    It is an error if neither their title, nor their description, nor another sentence does. Tools
    with the same description or own name do not hide each other, and those that others replace may
    be hidden.
    With BM25, only other tools count whose name and first sentence have all of its words but verbs
    of reading: long texts of others have them by chance.
    """
    tools, keys = catalogue.tools, dict[object, int]()
    same = np.array([keys.setdefault(_text_key(one), len(keys)) for one in tools])
    texts = {
        n: [one for one in _SENTENCE.split(tool.full_description) if one.strip()]
        for n, tool in enumerate(tools)
        if not is_replaced(tool)
    }
    texts = {n: sentences for n, sentences in texts.items() if sentences}

    @cache
    def short_words(place: int) -> frozenset[str]:
        return content_words(
            f"{tools[place].name} {' '.join(texts.get(place, ())[:1])}"
        )

    for label, score in _list_searches(catalogue):
        above = _rank_above(score, same, [*texts], [one[0] for one in texts.values()])
        for place, first in zip(texts, above, strict=True):
            tool, (gist, *sentences) = tools[place], texts[place]
            first = [n for n in first if _name_key(tools[n]) != _name_key(tool)]
            if label == _LEXICAL:
                words = content_words(gist) - READING
                first = [n for n in first if words <= short_words(n)]
            if len(first) < _TOP:
                continue
            more = [*filter(None, (tool.title, tool.full_description)), *sentences]
            others = _rank_above(score, same, [place] * len(more), more)
            is_lost = min(map(len, others)) >= _TOP
            names = [tools[other].name for other in first]
            also = " nor for any other of its texts" if is_lost and sentences else ""
            yield LintFinding(
                tool,
                "error" if is_lost else "warning",
                f"`{tool.name}` is not among the top {_TOP} of a search ({label}) for its own first "
                f'sentence, "{one_line(gist, _QUOTED)}"{also}: {name_some(names)} come before it',
                "Let the first sentence say what only this tool does",
                others=tuple(names[:_TOP]),
            )


def _list_searches(catalogue: CheckedTools) -> Iterator[tuple[str, Score]]:
    yield _LEXICAL, LexicalIndex.of([*map(all_words, catalogue.tools)]).scores
    if (encoder := catalogue.encoder) is not None:
        vectors = encoder.encode_documents([*map(title_and_summary, catalogue.tools)])

        def score(texts: Sequence[str]) -> NDArray[np.float32]:
            return cosine_scores(encoder.encode_queries(texts), vectors)

        yield encoder.config.label, score


def _rank_above(
    score: Score, same: NDArray[np.int64], places: Sequence[int], texts: Sequence[str]
) -> list[list[int]]:
    """The places of the tools above each tool for a text, the best first."""
    found: list[list[int]] = []
    for rows in blocks(len(texts), len(same)):
        own = np.array(places[rows])
        scores = score(texts[rows])
        least = scores[np.arange(len(own)), own] * _MARGIN
        is_above = (scores > least[:, None]) & (same != same[own][:, None])
        for row, others in zip(scores, is_above, strict=True):
            above = np.flatnonzero(others)
            found.append(above[np.argsort(-row[above], kind="stable")].tolist())
    return found
