"""The tools that a prompt shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, top_k
from toolbank.planner.config import GOLD, NONE, RANDOM
from toolbank.planner.plans import Example
from toolbank.retrievers.base import FitContext, Retriever, title_and_summary


@runtime_checkable
class SearchesNext(Protocol):
    """A retriever that looks for a plan's next tool by what it has learnt."""

    def search_next(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]], k: int
    ) -> Hits:
        """The best tools for each request's next step."""


@dataclass(frozen=True)
class Candidates:
    """Chooses tools for the examples of one bank; the same seed, the same tools."""

    bank: Bank
    k: int
    seed: int

    def choose(
        self,
        source: str,
        examples: Sequence[Example],
        retriever: Retriever | None = None,
        *,
        stepwise: bool = False,
    ) -> list[list[str]]:
        """The tools for each example, best first; what no retriever has ordered is in random order.

        `source` is one of GOLD, RANDOM and NONE, or the label of `retriever`; by the latter, with
        `stepwise`, each step is searched for by the steps before it, too.
        """
        if retriever is None:
            return [self._draw(source, example) for example in examples]
        queries = [example.plan.query for example in examples]
        if stepwise:
            histories = [[step.tool for step in e.history] for e in examples]
            return search_next(retriever, self.bank, queries, histories, self.k)
        return _names(retriever, retriever.search(queries, self.k)[0])

    def choose_train(
        self, examples: Sequence[Example], retriever: Retriever
    ) -> list[list[str]]:
        """What a retriever finds that has not seen the request, with the plan's own tools put in.

        They take the places of the last others where they are not found.
        """
        places = {q.id: i for i, q in enumerate(self.bank.train_queries)}
        context = FitContext(seed=self.seed)
        hits, _ = retriever.search_train(self.bank, self.k, context)
        found = _names(retriever, hits)
        chosen = []
        for example in examples:
            names = found[places[example.plan.id]]
            own = example.plan.tools
            others = [name for name in names if name not in own]
            kept = {*own, *others[: max(0, self.k - len(own))]}
            chosen.append(list(dict.fromkeys(n for n in (*names, *own) if n in kept)))
        return chosen

    def shuffle(self, names: Sequence[str], example: Example) -> list[str]:
        """The order in which a prompt shows them."""
        random = Random(f"{self.seed}:show:{example.plan.id}:{example.number}")
        return random.sample(list(names), len(names))

    def _draw(self, source: str, example: Example) -> list[str]:
        if source == NONE:
            return []
        names = list(example.plan.tools)
        random = Random(f"{self.seed}:{source}:{example.plan.id}:{example.number}")
        if source == RANDOM:
            own = set(names)
            others = [name for name in self.bank.tool_names if name not in own]
            free = max(0, self.k - len(names))
            names += random.sample(others, min(free, len(others)))
        elif source != GOLD:
            raise ValueError(f"{source} needs its retriever")
        return random.sample(names, len(names))


def search_next(
    retriever: Retriever,
    bank: Bank,
    queries: Sequence[str],
    histories: Sequence[Sequence[str]],
    k: int,
) -> list[list[str]]:
    """The best k tools for each request's next step, those of the steps before last.

    A retriever that learnt to subtract does it (arXiv 2312.10332, equation 1). Of any other, the
    scores for the words of the tools before are taken from those for the request: where scores
    are inner products, as cosines and BM25's sums over words are, that is the same subtraction.
    """
    if isinstance(retriever, SearchesNext):
        return _names(retriever, retriever.search_next(queries, histories, k)[0])
    texts = dict(zip(bank.tool_names, map(title_and_summary, bank.tools), strict=True))
    used = list(dict.fromkeys(name for history in histories for name in history))
    distinct = list(dict.fromkeys(queries))
    by_text = dict(zip(distinct, _scores(retriever, distinct), strict=True))
    by_tool = dict(
        zip(used, _scores(retriever, [texts[name] for name in used]), strict=True)
    )
    places = {name: place for place, name in enumerate(retriever.tools)}
    left = np.stack([by_text[query] for query in queries])
    for row, history in enumerate(histories):
        for name in dict.fromkeys(history):
            left[row] -= by_tool[name]
        left[row, [places[name] for name in history]] = -np.inf
    order = retriever.draw_ties(queries).order()
    return _names(retriever, top_k(left.astype(np.float32), k, order)[0])


def _scores(retriever: Retriever, texts: Sequence[str]) -> NDArray[np.float64]:
    """What each text scores every tool [n, n_tools], the least being 0, as what isn't found has."""
    scores = np.full((len(texts), len(retriever.tools)), np.nan)
    if not texts:
        return scores
    hits, found = retriever.search(texts, len(retriever.tools))
    for row, (places, values) in enumerate(zip(hits, found, strict=True)):
        there = places >= 0
        scores[row, places[there]] = values[there] - values[there].min(initial=0.0)
        if there.all():
            scores[row] -= scores[row].min()
    return np.asarray(np.nan_to_num(scores))


def _names(retriever: Retriever, hits: NDArray[np.int64]) -> list[list[str]]:
    return [[retriever.tools[place] for place in row if place >= 0] for row in hits]
