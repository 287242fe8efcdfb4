"""Rules on tools with the same texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from toolbank.bank.records import Tool, join_pairs
from toolbank.lint.rule import (
    CheckedTools,
    LintFinding,
    Severity,
    find_gist,
    name_some,
    own_name,
    stem,
    stems,
)
from toolbank.requests.write.near_duplicates import measure_jaccard
from toolbank.retrievers.base import split_words
from toolbank.system.terminal import one_line

_ALIKE = 0.8
"""Jaccard index of the words of two descriptions from which they say the same."""
_MEMBERS = ("method", "property")
_QUOTED = 100
_MOST_COMPARED = 300
"""Tools with the same own name that are compared with each other."""
_ARTICLES = frozenset(("a", "an", "the"))


def find_indistinguishable(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools with the same own name and (nearly) the same description, a finding per group.

    Own names are equal if they have the same words, such as `getUser` and `users_get`.
    Descriptions are if 80 % of their words are.
    """
    for group in group_same(catalogue):
        first, *others = group
        names = [tool.name for tool in others]
        same = len({stems(tool.full_description) for tool in group}) == 1
        apart = list(_tell_apart(group))
        severity: Severity | None = None if len(apart) < 2 else "warning"
        if all(tool.kind in _MEMBERS for tool in group):
            severity = "note"
        name = "names of the same words"
        if len({own_name(tool) for tool in group}) == 1:
            name = "the same name (without the prefix)"
        yield LintFinding(
            first,
            f"`{first.name}` and {name_some(names)} have {name} and "
            f'{"" if same else "nearly "}the same description ("{_quote(first)}"); '
            + (
                f"only {' and '.join(apart)} differ"
                if apart
                else "nothing else differs"
            ),
            others=tuple(names),
            severity=severity,
        )


def find_copied(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools with different names and the same description, a finding per group."""
    for group in group_copies(catalogue):
        by_name: dict[tuple[str, ...], Tool] = {}
        for tool in group:
            by_name.setdefault(_name_key(tool), tool)
        first, *others = by_name.values()
        if not others:
            continue
        names = [tool.name for tool in others]
        apart = "their names"
        if _have_other_parameters(group):
            apart = "their names and parameters"
        yield LintFinding(
            first,
            f"`{first.name}` and {name_some(names)} have the same description, word for word: "
            f'"{_quote(first)}"; only {apart} differ',
            others=tuple(names),
        )


def group_copies(catalogue: CheckedTools) -> list[list[Tool]]:
    """Group the tools with the same description; case and spaces do not count."""
    groups: dict[str, list[Tool]] = defaultdict(list)
    for tool in catalogue.tools:
        text = " ".join(tool.full_description.casefold().split()).rstrip(".")
        if stems(text):
            groups[text].append(tool)
    return [group for group in groups.values() if len(group) > 1]


def group_same(catalogue: CheckedTools) -> list[list[Tool]]:
    """Group the tools with the same own name and nearly the same description."""
    by_name: dict[tuple[str, ...], list[Tool]] = defaultdict(list)
    for tool in catalogue.tools:
        if tool.full_description.strip():
            by_name[_name_key(tool)].append(tool)
    groups = []
    for key, tools in by_name.items():
        if not key or len(tools) < 2:
            continue
        pairs = (
            (one, other)
            for one, other in combinations(range(min(len(tools), _MOST_COMPARED)), 2)
            if _say_the_same(tools[one], tools[other])
        )
        joined: dict[int, list[Tool]] = defaultdict(list)
        for tool, first in zip(tools, join_pairs(len(tools), pairs), strict=True):
            joined[first].append(tool)
        groups += [group for group in joined.values() if len(group) > 1]
    return groups


def _name_key(tool: Tool) -> tuple[str, ...]:
    """The words of a tool's own name in any order."""
    return tuple(
        sorted(stem(word) for word in split_words(own_name(tool)).lower().split())
    )


def _say_the_same(one: Tool, other: Tool) -> bool:
    """Whether the first sentences and the whole descriptions of two tools are nearly the same."""
    for texts in (
        (find_gist(one), find_gist(other)),
        (one.full_description, other.full_description),
    ):
        first, second = (stems(text) - _ARTICLES for text in texts)
        if first != second and measure_jaccard(first, second) < _ALIKE:
            return False
    return True


def _tell_apart(group: Sequence[Tool]) -> Iterator[str]:
    """What differs between tools with the same own name and description."""
    if len({tool.name.removesuffix(own_name(tool)) for tool in group}) > 1:
        is_class = all(tool.kind in _MEMBERS for tool in group)
        yield "their classes" if is_class else "the prefixes of their names"
    if _have_other_parameters(group):
        yield "their parameters"


def _have_other_parameters(group: Sequence[Tool]) -> bool:
    names = {frozenset(tool.parameters.get("properties", {})) for tool in group}
    return len(names) > 1


def _quote(tool: Tool) -> str:
    return one_line(tool.summary or tool.description, _QUOTED)
