"""Rank a bank's tools for a request from several directions, and merge the rankings into a pool."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from toolbank.bank.ranking import cosine_scores, top_k
from toolbank.requests.write.affinity import link_tools
from toolbank.retrievers.base import Retriever, all_words, split_words
from toolbank.retrievers.dense import DenseRetriever, DescriptionsRetriever
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    Tool2VecConfig,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from toolbank.bank.bank import Bank
    from toolbank.bank.records import Query

Rankings = Mapping[str, Sequence[str]]
"""Names of tools, best first, by the direction that found them."""

Group = tuple[float, Sequence[Rankings]]
"""The share of a group in the candidates, and the rankings of each of its sources."""

DEPTH = 30
"""How many tools a direction ranks for one label, clause or request."""

ROUND_TRIP = 50
"""How many tools the round-trip check retrieves."""

_DAMPING = 10
"""The constant of reciprocal rank fusion: 60 in the paper, which ranks thousands of documents."""


def fuse(rankings: Rankings) -> list[str]:
    """Order tools by the sum of 1 / (10 + rank) over the rankings, ties by name.

    Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
    """
    scores: dict[str, float] = {}
    for _, ranking in sorted(rankings.items()):
        for rank, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0) + 1 / (_DAMPING + rank)
    return sorted(scores, key=lambda name: (-scores[name], name))


def share_out(
    groups: Iterable[tuple[float, Sequence[Sequence[str]]]],
    most: int,
    taken: Collection[str] = (),
) -> list[str]:
    """Take up to `most` tools from groups of lists, each group in proportion to its share.

    The lists of a group take turns. A tool counts for the list that has it first; those in `taken`
    are skipped. What a group lacks, the others take.
    """
    queues = [(share, _take_turns(lists), [0]) for share, lists in groups]
    found: dict[str, None] = {}
    while queues and len(found) < most:
        queue = min(queues, key=lambda one: (one[2][0] + 1) / one[0])
        for name in queue[1]:
            if name not in found and name not in taken:
                found[name] = None
                queue[2][0] += 1
                break
        else:
            queues.remove(queue)
    return list(found)


def _take_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    for rank in range(max(map(len, lists), default=0)):
        yield from (one[rank] for one in lists if rank < len(one))


_PART = re.compile(
    r"(?<=[.!?;:])\s+|\s*\n\s*|,\s+(?:(?:and|or|then)\s+)?|\s+(?:and|or|then)\s+"
)
_FEWEST_WORDS = 3
_MOST_PARTS = 12
_BLOCK = 256


def split_parts(text: str) -> list[str]:
    """Split a text into clauses of three words or more; the whole text if there are none."""
    parts = dict.fromkeys(part.strip() for part in _PART.split(text))
    long = [part for part in parts if len(part.split()) >= _FEWEST_WORDS]
    return long[:_MOST_PARTS] or list(filter(None, [text.strip()]))


LABELS, EXPLANATION, PARTS, REQUEST = 14.0, 4.0, 1.0, 1.0
"""Shares of the candidates: near the labels, and hits of the explanation, the parts of the request,
and the whole request. They were chosen by benchmarks/requests/rivals.py on three APIs."""


class Directions:
    """The directions from which tools of a bank are found.

    Neighbours of a tool: `description` (cosine of name and summary), `usage` (cosine of Tool2Vec
    vectors, from requests and asks), `words` (BM25 of the documentation), `name` (BM25 of the words
    and character trigrams of the last part of the name), `see-also` (references, both ways) and
    `module` (by description, in the same module or class). Hits of a text: `bm25`, `tool2vec` and
    `descriptions`.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        # All requests teach Tool2Vec; `search_train` leaves each out of its own search.
        train = {"split": "train"}
        self._learnt = replace(
            bank,
            queries=tuple(q.model_copy(update=train) for q in bank.queries),
            labels=(),
        )
        # Few commands that read grades pool tools.
        from toolbank.retrievers.bm25 import Bm25Retriever
        from toolbank.retrievers.tool2vec import Tool2VecRetriever

        self._tool2vec = Tool2VecRetriever(Tool2VecConfig())
        self._descriptions = DescriptionsRetriever(DescriptionsConfig())
        self._retrievers: Mapping[str, Retriever] = {
            "bm25": Bm25Retriever(Bm25Config()),
            "tool2vec": self._tool2vec,
            "descriptions": self._descriptions,
        }
        for one in self._retrievers.values():
            one.fit(self._learnt)
        names = bank.tool_names
        self._order = np.argsort(np.argsort(np.array(names))).astype(np.uint32)
        self._names = np.array(names, dtype=object)
        self._references = link_tools(bank.tools)
        self._words = LexicalIndex.of([all_words(tool) for tool in bank.tools])
        self._spellings = LexicalIndex.of([_spell(name) for name in names])
        self._modules = np.array([name.rpartition(".")[0] for name in names])
        self._rows = {query.id: row for row, query in enumerate(bank.queries)}
        self.near = cache(self._find_near)

    @cached_property
    def _held_out(self) -> NDArray[np.int64]:
        """The top 50 tools [n_queries, 50] of each request by Tool2Vec fitted without it."""
        hits, _ = self._tool2vec.search_train(self._learnt, ROUND_TRIP)
        return hits[: len(self.bank.queries)]

    def _find_near(self, name: str) -> Rankings:
        """Rank the neighbours of a tool."""
        place = self.bank.index[name]
        dense: tuple[DenseRetriever, ...] = self._descriptions, self._tool2vec
        cosines = [cosine_scores(one.vectors[[place]], one.vectors)[0] for one in dense]
        referred = np.isin(np.arange(len(self._names)), list(self._references[place]))
        is_mate = self._modules == self._modules[place]
        scores = {
            "description": cosines[0],
            "usage": cosines[1],
            "see-also": np.where(referred, 1 + cosines[0], 0),
            "module": np.where(is_mate, 1 + cosines[0], 0),
            "words": self._words.scores([all_words(self.bank.tools[place])])[0],
            "name": self._spellings.scores([_spell(name)])[0],
        }
        return {key: self._rank(values, place) for key, values in scores.items()}

    def _rank(self, scores: NDArray[np.float32], but: int | None = None) -> list[str]:
        if but is not None:
            scores = np.array(scores, np.float32)
            scores[but] = 0
        [places], [values] = top_k(scores[None], DEPTH, self._order[None])
        return self._name(np.where(values > 0, places, -1))

    def _name(self, places: NDArray[np.int64]) -> list[str]:
        return list(self._names[places[places >= 0]])

    def find_hits(self, texts: Sequence[str]) -> list[Rankings]:
        """Rank the tools for each text."""
        found: list[dict[str, list[str]]] = [{} for _ in texts]
        for by, retriever in self._retrievers.items() if texts else ():
            indices, _ = retriever.search(texts, DEPTH)
            for row, places in zip(found, indices, strict=True):
                row[by] = self._name(places)
        return list(found)

    def rank_held_out(self, query: Query) -> dict[str, int]:
        """The ranks, from 1, of the top tools of a request by Tool2Vec fitted without it.

        A request that the bank does not train on, such as a missing-tool query, has none.
        """
        if query.id not in self._rows:
            return {}
        names = self._name(self._held_out[self._rows[query.id]])
        return {name: rank for rank, name in enumerate(names, 1)}

    def find_alike(self, name: str) -> list[str]:
        """Find the tools whose last names are spelt like that of `name`, the most similar first."""
        return self._rank(self._spellings.scores([_spell(name)])[0])

    def group(self, queries: Sequence[Query]) -> Iterator[list[Group]]:
        """Rank the tools for each request, in groups with their shares of the candidates."""
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            texts = [
                split_parts(text) for q in block for text in (q.explanation, q.query)
            ]
            hits = iter(self.find_hits([part for parts in texts for part in parts]))
            parts = iter([list(islice(hits, len(parts))) for parts in texts])
            wholes = self.find_hits([query.query for query in block])
            for query, whole in zip(block, wholes, strict=True):
                if query.id in self._rows:
                    held_out = list(self.rank_held_out(query))[:DEPTH]
                    whole = {**whole, "tool2vec": held_out}
                labels = own_labels(self.bank, query)
                yield [
                    (LABELS, [self.near(name) for name in labels]),
                    (EXPLANATION, [_rename(one) for one in next(parts)]),
                    (PARTS, [_rename(one) for one in next(parts)]),
                    (REQUEST, [whole]),
                ]


def _rename(hits: Rankings) -> Rankings:
    return {f"part-{by}": ranking for by, ranking in hits.items()}


def own_labels(bank: Bank, query: Query) -> tuple[str, ...]:
    """List a request's first labels by the tools' own names, without tools that the bank lacks."""
    places = (bank.index[name] for name in query.tools if name in bank.index)
    return tuple(dict.fromkeys(bank.tools[place].name for place in places))


def merge_rankings(
    groups: Iterable[Group],
    most: int,
    taken: Collection[str],
) -> dict[str, tuple[str, ...]]:
    """Fuse the directions of each source, and share out up to `most` tools over the groups.

    Returns the tools in order, each with the directions that ranked it.
    """
    groups = list(groups)
    fused = [(share, list(map(fuse, sources))) for share, sources in groups]
    by: dict[str, set[str]] = {name: set() for name in share_out(fused, most, taken)}
    for _, sources in groups:
        for rankings in sources:
            for direction, ranking in rankings.items():
                for name in by.keys() & set(ranking):
                    by[name].add(direction)
    return {name: tuple(sorted(found)) for name, found in by.items()}


def _spell(name: str) -> str:
    """The words of the last part of a name, and its character trigrams."""
    last = name.rpartition(".")[2]
    plain = "_" + re.sub(r"[\W_]+", "", last).lower() + "_"
    trigrams = (plain[start : start + 3] for start in range(len(plain) - 2))
    return " ".join((split_words(last), *trigrams))
