"""The plans of a bank, and the greedy progressive search for their tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, Ties, blocks, by_rank, join, top_k
from toolbank.bank.records import Query
from toolbank.system.errors import InputError


@dataclass(frozen=True)
class ToolPlan:
    """A request and the indices of its tools in call order, none twice.

    Or, with `either`, the tools each of which serves it alone, by one step. `spared` are others
    that would serve in place of one of its tools.
    """

    query: str
    tools: tuple[int, ...]
    either: bool = False
    spared: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """How many there are."""
        return 1 if self.either else len(self.tools)


def divide_plans(bank: Bank, seed: int) -> tuple[list[ToolPlan], list[ToolPlan]]:
    """Return the plans to train on, and those to measure on: validation, or held back.

    Asks are plans of one step, which any of their siblings serves. None of them is held back,
    because the lengths of plans are measured, too.

    Raises:
        InputError: the order of the tools in the bank's queries means nothing.
    """
    train, known = (read_plans(bank, bank.split(s)) for s in ("train", "validation"))
    if not known:
        train, known = hold_back(train, seed)
    asked = [replace(plan, either=True) for plan in read_plans(bank, bank.asked)]
    return train + asked, known


def read_plans(bank: Bank, queries: Sequence[Query]) -> list[ToolPlan]:
    """Read the plans of the queries that have a tool of the bank.

    Raises:
        InputError: the order of the tools in the bank's queries means nothing.
    """
    if not bank.info.get("ordered", True):
        raise InputError(
            "retrievers: protip learns the order in which tools are called, and in this bank "
            "the order of a query's tools means nothing (`ordered: false`). Remove it, or use a "
            "dataset whose tools are ordered."
        )
    plans = []
    for query in queries:
        known = (bank.index[name] for name in query.tools if name in bank.index)
        if tools := tuple(dict.fromkeys(known)):
            others = {bank.index.get(n, -1) for n in bank.alternatives(query)}
            spared = tuple(sorted(others.difference(tools, [-1])))
            plans.append(ToolPlan(query.query, tools, spared=spared))
    return plans


def hold_back(
    plans: Sequence[ToolPlan], seed: int
) -> tuple[list[ToolPlan], list[ToolPlan]]:
    """Split off a tenth of the plans, drawn by the seed, to measure on.

    Each tool of a plan that is held back is in one to train on, so there can be fewer.
    """
    counts = Counter(tool for plan in plans for tool in plan.tools)
    held: set[int] = set()
    for place in Random(f"{seed}:hold-back").sample(range(len(plans)), len(plans)):
        if len(held) >= len(plans) // 10:
            break
        if all(counts[tool] > 1 for tool in plans[place].tools):
            counts.subtract(plans[place].tools)
            held.add(place)
    train = [plan for place, plan in enumerate(plans) if place not in held]
    return train, [plans[place] for place in sorted(held)]


Vectors = NDArray[np.floating]


@dataclass(frozen=True)
class SearchTrace:
    """Every step of a search for n requests.

    `hits` [n, steps, depth] are the tools by their distance to the step's query, nearest first,
    and those taken before last; the first is the one that is taken. `distances` [n, steps,
    depth] are theirs. `residuals` [n, steps] is how much of the request is left at the step, the
    norm of its query over the distance of the nearest tool: below 1, no tool is as near as
    nothing at all.
    """

    hits: NDArray[np.int64]
    distances: NDArray[np.float64]
    residuals: NDArray[np.float64]

    def lengths(
        self, stop_threshold: float, at_least: int | NDArray[np.int64] = 1
    ) -> NDArray[np.int64]:
        """How many steps [n] each plan has: it ends before the first with a smaller residual."""
        goes_on = np.minimum.accumulate(self.residuals >= stop_threshold, axis=1)
        return np.asarray(np.maximum(goes_on.sum(axis=1), at_least), dtype=np.int64)


def trace_search(
    queries: Vectors,
    tools: Vectors,
    ties: Ties,
    steps: int,
    depth: int,
    history: Sequence[Sequence[int]] = (),
) -> SearchTrace:
    """Search by L2 distance for `steps` tools in turn (arXiv 2312.10332, section 3).

    Step j's query is E(q) less the vectors of the tools taken before it; `queries` [n, d] are
    E(q) and `tools` [m, d] E(t). No tool is taken twice. `history` are the tools that each
    request's execution has used already: they count as taken before the first step. Requests
    are searched for in blocks, so that memory holds few distances at once.
    """
    vectors = tools.astype(np.float64, copy=False)
    parts = [
        _search_block(
            queries[block], vectors, ties.of(block), steps, depth, history[block]
        )
        for block in blocks(len(queries), 3 * len(tools) + steps * depth)
        or [slice(None)]
    ]
    return SearchTrace(
        np.concatenate([part.hits for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.residuals for part in parts]),
    )


def search_plans(
    queries: Vectors,
    tools: Vectors,
    ties: Ties,
    steps: int,
    stop_threshold: float,
    k: int,
) -> Hits:
    """The interleaved hits of the steps of every plan: two arrays [n, min(k, m)]."""
    k = min(k, len(tools))
    vectors = tools.astype(np.float64, copy=False)
    parts = []
    for block in blocks(len(queries), len(tools) * (3 + steps)):
        found = _search_block(
            queries[block], vectors, ties.of(block), steps, k, (), stop_threshold
        )
        lengths = found.lengths(stop_threshold)
        parts.append(interleave(found.hits, lengths, len(tools), k))
    return join(parts, k)


def measure_distances(
    queries: Vectors, tools: Vectors, squares: Vectors | None = None
) -> NDArray[np.float64]:
    """L2 distances [n, m], rounded as cosines are (see `cosine_scores`).

    `squares` [m] are the tools' squared norms, where they are known.
    """
    if squares is None:
        squares = square_norms(tools)
    squares = square_norms(queries)[:, None] + squares - 2 * queries @ tools.T
    return np.asarray(np.round(np.sqrt(np.maximum(squares, 0)), 6), dtype=np.float64)


def square_norms(vectors: Vectors) -> Vectors:
    """Squared norms [m] of vectors [m, d]."""
    return np.asarray(np.einsum("md,md->m", vectors, vectors))


def _search_block(
    queries: Vectors,
    vectors: NDArray[np.float64],
    ties: Ties,
    steps: int,
    depth: int,
    history: Sequence[Sequence[int]],
    stop_threshold: float = 0.0,
) -> SearchTrace:
    """The steps, until no plan of the block goes on; with a threshold of 0 all of them."""
    residual = queries.astype(np.float64)
    taken = np.zeros((len(queries), len(vectors)), dtype=np.bool_)
    for row, used in enumerate(history):
        distinct = list(dict.fromkeys(used))
        taken[row, distinct] = True
        residual[row] -= vectors[distinct].sum(axis=0)
    rows, squares = np.arange(len(queries)), square_norms(vectors)
    goes_on = np.ones(len(queries), np.bool_)
    hits, near, residuals = [], [], []
    for _ in range(min(steps, len(vectors))):
        distances = measure_distances(residual, vectors, squares)
        distances[taken] = np.inf
        nearest_first, _ = top_k(-distances.astype(np.float32), depth, ties)
        best = nearest_first[:, 0]
        nearest = distances[rows, best]
        norms = np.linalg.norm(residual, axis=1)
        hits.append(nearest_first)
        near.append(np.take_along_axis(distances, hits[-1], axis=1))
        residuals.append(
            np.where(np.isinf(nearest), 0, norms / np.maximum(nearest, 1e-9))
        )
        goes_on &= residuals[-1] >= stop_threshold
        if stop_threshold and not goes_on.any():
            break
        taken[rows, best] = True
        residual -= vectors[best]
    return SearchTrace(*(np.stack(found, axis=1) for found in (hits, near, residuals)))


def interleave(
    lists: NDArray[np.int64], lengths: NDArray[np.int64], n_tools: int, k: int
) -> Hits:
    """Interleave each request's lists of hits, as ProTIP is evaluated (arXiv 2312.10332, 4.3).

    `lists` [n, most, depth] are indices of tools, best first and none twice in a list; the
    first `lengths` [n] lists of each request count, at least one. Its depth is at least
    min(k, n_tools); a list with fewer hits is filled up with -1.

    Returns:
        Indices and scores, [n, min(k, n_tools)]; the score of rank r, from 1, is 1 / r. Where
        the lists have fewer tools, the rest is -1 and -inf.
    """
    n, most, depth = lists.shape
    k = min(k, n_tools)
    never = most * depth
    # The last column takes the padding and is cut off.
    places = np.full((n, n_tools + 1), never, dtype=np.int64)
    for number in range(most):
        hits = lists[:, number]
        place = np.where(
            (number < lengths)[:, None], np.arange(depth) * most + number, never
        )
        known = np.take_along_axis(places, hits, axis=1)
        np.put_along_axis(places, hits, np.minimum(known, place), axis=1)
    places = places[:, :n_tools]
    indices = np.argsort(places, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(places, indices, axis=1) < never
    return by_rank(np.where(found, indices, -1))
