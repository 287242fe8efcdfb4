"""Rules on tools that a search by their own words does not find, or finds below another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import blocks, cosine_scores
from toolbank.bank.records import Tool, join_pairs
from toolbank.lint.duplicates import group_copies, group_same
from toolbank.lint.rule import (
    CheckedTools,
    LintFinding,
    content_words,
    find_gist,
    name_some,
    split_sentences,
)
from toolbank.retrievers.base import title_and_summary
from toolbank.system.terminal import one_line

Score = Callable[[Sequence[str]], NDArray[np.float32]]
"""Scores [n_texts, n_tools] of texts as requests."""

_LEXICAL = "BM25"
_TOP = 5
"""The number of tools that an agent usually gets from a search."""
_MARGIN = 1.02
"""Scores that differ by less count as equal."""
_FEWEST_WORDS = 2
_QUOTED = 100


def find_shadowed(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools whose own first sentence ranks another tool above them.

    With BM25, only other tools count whose name and first sentence contain all of its words: long
    texts of others contain them by chance.
    """
    tools = catalogue.tools
    for search in _search_own_texts(catalogue):
        for place, above in search.above.items():
            tool, gist = tools[place], find_gist(tools[place])
            words = content_words(gist)
            if search.label == _LEXICAL:
                above = [n for n in above if words <= _short_words(tools[n])]
            if not above or len(words) < _FEWEST_WORDS or place in search.lost:
                continue
            names = [tools[other].name for other in above]
            verb, texts = "comes", "its name and first sentence have"
            if len(names) > 1:
                verb, texts = "come", "their names and first sentences have"
            why = f": {texts} all of these words" if search.label == _LEXICAL else ""
            yield LintFinding(
                tool,
                f"in a search ({search.label}) for the first sentence of `{tool.name}`, "
                f'"{one_line(gist, _QUOTED)}", {name_some(names)} {verb} before it{why}',
                others=tuple(names[:_TOP]),
            )


def _short_words(tool: Tool) -> frozenset[str]:
    return content_words(f"{tool.name} {find_gist(tool)}")


def find_unreachable(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools that no text of their own ranks among the top 5.

    The texts are the title, the description and each of its sentences.
    """
    tools = catalogue.tools
    for search in _search_own_texts(catalogue):
        for place, above in search.lost.items():
            names = [tools[other].name for other in above]
            yield LintFinding(
                tools[place],
                f"no search ({search.label}) for the title, the description or a sentence of "
                f"`{tools[place].name}` finds it among the top {_TOP}: {name_some(names)} rank "
                "above it",
                others=tuple(names[:_TOP]),
            )


@dataclass(frozen=True)
class _OwnSearch:
    """What ranks above tools, by places, the best first.

    `above` is for their first sentences; `lost` is for the best of all texts of the tools that none
    of them finds. Tools that cannot be told apart do not rank above each other.
    """

    label: str
    above: dict[int, list[int]]
    lost: dict[int, list[int]]


@lru_cache(maxsize=1)
def _search_own_texts(catalogue: CheckedTools) -> list[_OwnSearch]:
    searches = [_search(catalogue, _LEXICAL, catalogue.index.scores)]
    if (encoder := catalogue.encoder) is not None:
        vectors = encoder.encode_documents([*map(title_and_summary, catalogue.tools)])

        def score(texts: Sequence[str]) -> NDArray[np.float32]:
            return cosine_scores(encoder.encode_queries(texts), vectors)

        searches.append(_search(catalogue, encoder.config.label, score))
    return searches


def _search(catalogue: CheckedTools, label: str, score: Score) -> _OwnSearch:
    tools, equal = catalogue.tools, _group_equal(catalogue)

    def rank(places: Sequence[int], texts: Sequence[str]) -> list[list[int]]:
        """The tools above each tool for a text."""
        found: list[list[int]] = []
        for rows in blocks(len(texts), len(tools)):
            own = np.array(places[rows])
            scores = score(texts[rows])
            least = scores[np.arange(len(own)), own] * _MARGIN
            is_above = (scores > least[:, None]) & (equal != equal[own][:, None])
            for row, others in zip(scores, is_above, strict=True):
                above = np.flatnonzero(others)
                found.append(above[np.argsort(-row[above], kind="stable")].tolist())
        return found

    gists = {n: gist for n, tool in enumerate(tools) if (gist := find_gist(tool))}
    ranked = zip(gists, rank([*gists], [*gists.values()]), strict=True)
    search = _OwnSearch(label, {n: above for n, above in ranked if above}, {})
    for place, above in search.above.items():
        if len(above) >= _TOP:
            tool = tools[place]
            texts = [tool.title, tool.full_description, *split_sentences(tool)]
            others = rank([place] * len(texts), texts)
            best = min(
                (one for one, text in zip(others, texts, strict=True) if text), key=len
            )
            if len(best) >= _TOP:
                search.lost[place] = best
    return search


def _group_equal(catalogue: CheckedTools) -> NDArray[np.int64]:
    """For each tool the first that cannot be told apart from it, or has the same description."""
    place = {tool.name: number for number, tool in enumerate(catalogue.tools)}
    groups = (*group_same(catalogue), *group_copies(catalogue))
    pairs = ((place[g[0].name], place[tool.name]) for g in groups for tool in g[1:])
    return np.array(join_pairs(len(place), pairs), np.int64)
