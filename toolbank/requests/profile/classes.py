"""Class requests by how many tools fit them, how they are worded and how hard they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

import numpy as np
import polars as pl

from toolbank.bank.bank import Bank, apply_labels, label_key
from toolbank.bank.profile import Difficulty, Fits, QueryProfile, Wording
from toolbank.bank.records import Query
from toolbank.encoders.config import EncoderConfig
from toolbank.requests.quality.texts import (
    content_words,
    make_tools,
    words_of,
    words_of_name,
)
from toolbank.retrievers import create_retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.settings import Bm25Config, DescriptionsConfig

FOUND = 10
"""The ranks in which a needed tool counts as found, the largest default cut-off of evaluation."""

DEPTH = 100
"""The ranks that are searched."""

SAID = 0.2
"""The overlap with its tools from which a request is in the tools' words."""

# A word counts by its first letters, so that "rotation" is "rotate".
_STEM = 5


def profile_bank(bank: Bank, encoder: EncoderConfig | None) -> Iterator[QueryProfile]:
    """Profile every request of a bank by its labels, and by BM25 and an encoder, if there is one.

    Both know the descriptions of the tools alone, and no request. A tool's rank is the better one
    of the two, and the best of the tool and its alternatives. A request is easy if all needed tools
    are in the top `FOUND`, hard if none is, and else medium.

    Raises:
        InputError: the encoder can't be loaded.
    """
    verified = [bank.verified.get(query.id) for query in bank.queries]
    queries = [apply_labels(q, v) for q, v in zip(bank.queries, verified, strict=True)]
    fitting = [
        [
            {
                bank.index[name]
                for name in (tool, *(found.alternatives.get(tool, ()) if found else ()))
                if name in bank.index
            }
            for tool in query.tools
        ]
        for query, found in zip(queries, verified, strict=True)
    ]
    lexical = _rank(bank, Bm25Config(), fitting)
    dense: Sequence[tuple[int, ...]] = [()] * len(queries)
    if encoder is not None:
        dense = _rank(bank, DescriptionsConfig(encoder=encoder), fitting)
    rows = zip(
        bank.queries,
        queries,
        verified,
        fitting,
        measure_wording(bank, queries),
        lexical,
        dense,
        strict=True,
    )
    for original, query, found, tools, (overlap, named), by_words, by_vectors in rows:
        others = found.all_alternatives if found else ()
        names = {bank.index.get(name, name) for name in (*query.tools, *others)}
        yield QueryProfile(
            id=query.id,
            key=label_key(original, found),
            labels="verified" if found and found.needed else "first",
            n_fits=len(names),
            fits=_class_fits(len(names)),
            overlap=round(overlap, 4),
            named=round(named, 4),
            wording=class_wording(overlap, named) if any(tools) else None,
            bm25_ranks=by_words,
            encoder_ranks=by_vectors,
            difficulty=class_difficulty(by_words, by_vectors),
        )


def _class_fits(n: int) -> Fits:
    return "1" if n < 2 else "2-3" if n < 4 else "4+"


def class_wording(overlap: float, named: float) -> Wording:
    """Class a request by its overlap with its tools and the share of tools that it names.

    - tool-words: an overlap of at least `SAID`, or the names of half of its tools
    - outcome: not one word of a name or a summary
    - paraphrase: what is between
    """
    if overlap >= SAID or named >= 0.5:
        return "tool-words"
    return "paraphrase" if overlap else "outcome"


def class_difficulty(*ranks: Sequence[int]) -> Difficulty:
    """Class a request by the ranks of its needed tools in each ranking; 0 is not ranked."""
    found = [
        any(0 < rank <= FOUND for rank in of_tool)
        for of_tool in zip(*filter(None, ranks), strict=True)
    ]
    if not any(found):
        return "hard"
    return "easy" if all(found) else "medium"


def measure_wording(bank: Bank, queries: Sequence[Query]) -> list[tuple[float, float]]:
    """Measure for each request its overlap with its tools, and the share of tools that it names.

    The overlap is the mean over its tools of the overlap coefficient (Szymkiewicz and Simpson) of
    two sets of words: those of the request, and those of the tool's name and summary. Words are in
    lower case, without stop words, cut after five letters. A tool is named if the request has all
    words of its name. Tools that the bank lacks do not count; without any, both are 0.
    """
    tools = make_tools(bank)
    names = _stem(tools["tool"], words_of_name)
    gists = _stem(tools["gist"], words_of)
    texts = _stem(pl.Series([query.query for query in queries], dtype=pl.String))
    found = []
    for query, text in zip(queries, texts, strict=True):
        own = [bank.index[name] for name in query.tools if name in bank.index]
        overlaps = [measure_overlap(text, names[tool] | gists[tool]) for tool in own]
        named = [bool(names[tool]) and names[tool] <= text for tool in own]
        n = max(len(own), 1)
        found.append((sum(overlaps) / n, sum(named) / n))
    return found


def measure_overlap(first: Set[str], second: Set[str]) -> float:
    """Compute the share of the smaller of two sets that is in the other; 0 if one is empty."""
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0


def _stem(
    texts: pl.Series, split: Callable[[pl.Expr], pl.Expr] = words_of
) -> list[set[str]]:
    """The first letters of the content words of each text."""
    words = content_words(split(pl.col("text")))
    stems = words.list.eval(pl.element().str.head(_STEM))
    return [*map(set, pl.DataFrame({"text": texts}).select(stems).to_series())]


def _rank(
    bank: Bank, config: RetrieverConfig, fitting: Sequence[Sequence[set[int]]]
) -> list[tuple[int, ...]]:
    """The rank of each needed tool by a retriever that knows no requests."""
    retriever = create_retriever(config)
    retriever.fit(Bank(bank.tools))
    hits, _ = retriever.search(
        [q.query for q in bank.queries], min(DEPTH, len(bank.tools))
    )
    ranks = []
    for row, tools in zip(hits, fitting, strict=True):
        places = [np.flatnonzero(np.isin(row, list(fit))) for fit in tools]
        ranks.append(tuple(int(at[0]) + 1 if len(at) else 0 for at in places))
    return ranks
