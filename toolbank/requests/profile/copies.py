"""Find requests that are copies of others: the same words, nearly the same, or near by vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.requests.judge.summary import read_sides
from toolbank.requests.profile import CopiesConfig
from toolbank.requests.quality.texts import content_words, words_of
from toolbank.requests.write.near_duplicates import NearDuplicates, compared_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Gives the unit vectors [n, d] of n texts."""

How = Literal["same", "jaccard", "cosine"]

_EXAMPLES = 10
# Vectors are compared of texts whose sets of words have such a cosine, with so many others at most.
# All 12 pairs with a cosine of vectors of 0.95 that were found without this limit are within it.
_SHARED, _NEAREST = 0.6, 2
_BLOCK = 256
_BATCH = 1024


@dataclass(frozen=True)
class Copy:
    """A request and the most similar one of another set; `score` is that of `how`, 1 if `same`."""

    id: str
    query: str
    other: str
    how: How
    score: float


@dataclass(frozen=True)
class CopyCounts:
    """The copies among the `requests` of the part `of` of those of `against`, each by one measure.

    `copied` counts the requests of `against` that have a copy.
    """

    of: str
    against: str
    requests: int
    others: int
    same: int
    jaccard: int
    cosine: int
    copied: int
    examples: list[Copy] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of copies by any measure."""
        return self.same + self.jaccard + self.cosine

    def describe(self) -> str:
        """Say how many requests are copies, by what measure, and of what."""
        parts = {
            "the same words": self.same,
            "Jaccard": self.jaccard,
            "cosine": self.cosine,
        }
        by = ", ".join(f"{name} {number:,}" for name, number in parts.items() if number)
        return (
            f"copies in {self.of}: {self.total:,} of {self.requests:,} ({by}) copy "
            f"{self.copied:,} of {self.others:,} of {self.against}"
        )


@dataclass(frozen=True)
class Copies:
    """copies.json: the thresholds, the encoder or "", and the counts of each pair of sets."""

    jaccard: float
    cosine: float | None
    encoder: str
    sets: list[CopyCounts]


@dataclass(frozen=True)
class Match:
    """A similar text of another list, by its place."""

    place: int
    how: How
    score: float


def find_copies(
    texts: Sequence[str],
    others: Sequence[str],
    limits: CopiesConfig,
    embed: Embed | None = None,
) -> dict[int, list[Match]]:
    """Find for each text the similar ones among others, the most similar first; texts by place.

    - same: the same words in the same order; case and punctuation do not count
    - jaccard: a Jaccard index of the runs of three words of at least `limits.jaccard`; exact
    - cosine: vectors with a cosine of at least `limits.cosine`. Only the two others with the most
      words in common are compared, and only if the cosine of the sets of content words is at least
      0.6, so that few of many texts have to be embedded.
    """
    folded, folded_others = (
        [text.casefold() for text in one] for one in (texts, others)
    )
    seen = NearDuplicates(limits.jaccard, folded_others.__getitem__)
    for text in folded_others:
        seen.add(text)
    found: dict[int, list[Match]] = {}
    for place, text in enumerate(folded):
        for other, jaccard in seen.find_all(text):
            same = compared_words(text) == compared_words(folded_others[other])
            how: How = "same" if same else "jaccard"
            found.setdefault(place, []).append(Match(other, how, jaccard))
    if embed is not None and limits.cosine is not None:
        known = {(place, one.place) for place, many in found.items() for one in many}
        pairs = [pair for pair in _share_words(texts, others) if pair not in known]
        for place, other, cosine in _compare_vectors(texts, others, pairs, embed):
            if cosine >= limits.cosine:
                found.setdefault(place, []).append(Match(other, "cosine", cosine))
    order = ("same", "jaccard", "cosine")
    for matches in found.values():
        matches.sort(key=lambda one: (order.index(one.how), -one.score, one.place))
    return dict(sorted(found.items()))


def count_copies(
    bank: Bank,
    limits: CopiesConfig,
    examples: Sequence[str] = (),
    embed: Embed | None = None,
) -> list[CopyCounts]:
    """Count the copies between the parts of a bank, and with other sets.

    Held-out requests are looked for in train, asks and, for those of test, in validation; the
    `examples` of the prompts and the sets of `limits.against` in all parts.

    Raises:
        InputError: a set can't be read, or the encoder can't be loaded.
    """
    parts: dict[str, Sequence[Query]] = {
        "train": bank.split("train"),
        "asks": bank.asked,
        "validation": bank.split("validation"),
        "test": bank.split("test"),
    }
    learnt = {name: parts[name] for name in ("train", "asks")}
    counts = [
        *_count(
            "test",
            _texts(parts["test"]),
            {**learnt, "validation": parts["validation"]},
            limits,
            embed,
        ),
        *_count("validation", _texts(parts["validation"]), learnt, limits, embed),
        *_count("examples of the prompts", examples, parts, limits, embed),
    ]
    for path in limits.against:
        others = [side.text for side in read_sides(path)]
        counts += _count(path.resolve().name, others, parts, limits, embed)
    return counts


def find_dropped(
    texts: Sequence[str],
    queries: Sequence[Query],
    limits: CopiesConfig,
    embed: Embed | None = None,
) -> set[int]:
    """Find the places of texts that copy a held-out one of the queries, or one of `against`.

    Raises:
        InputError: as of `count_copies`.
    """
    others = [one.query for one in queries if one.split in ("test", "validation")]
    for path in limits.against:
        others += [side.text for side in read_sides(path)]
    return set(find_copies(texts, others, limits, embed))


def _texts(queries: Sequence[Query]) -> list[str]:
    return [query.query for query in queries]


def _count(
    against: str,
    others: Sequence[str],
    parts: Mapping[str, Sequence[Query]],
    limits: CopiesConfig,
    embed: Embed | None,
) -> Iterator[CopyCounts]:
    """The copies in each part that has requests, of a set that has some."""
    queries = [query for part in parts.values() for query in part]
    found = find_copies(_texts(queries), others, limits, embed) if others else {}
    start = 0
    for of, part in parts.items():
        inside = {
            place: one for place, one in found.items() if 0 <= place - start < len(part)
        }
        start += len(part)
        if not part or not others:
            continue
        copies = [
            Copy(
                queries[place].id,
                queries[place].query,
                others[best.place],
                best.how,
                round(best.score, 4),
            )
            for place, (best, *_) in inside.items()
        ]
        copies.sort(key=lambda one: -one.score)
        numbers = {how: sum(one.how == how for one in copies) for how in get_args(How)}
        copied = {one.place for many in inside.values() for one in many}
        yield CopyCounts(
            of,
            against,
            len(part),
            len(others),
            copied=len(copied),
            examples=copies[:_EXAMPLES],
            **numbers,
        )


def _compare_vectors(
    texts: Sequence[str],
    others: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    embed: Embed,
) -> Iterator[tuple[int, int, float]]:
    """The cosine of the vectors of each pair of a text and another."""
    for start in range(0, len(pairs), _BATCH):
        part = pairs[start : start + _BATCH]
        first = embed([texts[place] for place, _ in part])
        second = embed([others[place] for _, place in part])
        cosines = np.einsum("nd,nd->n", first, second).tolist()
        yield from ((*pair, cosine) for pair, cosine in zip(part, cosines, strict=True))


def _share_words(
    texts: Sequence[str], others: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """The pairs whose sets of content words have a cosine of at least 0.6, two for a text."""
    first, second = _make_incidence(texts, others)
    turned = second.T.tocsr()
    for start in range(0, first.shape[0], _BLOCK):
        shared = (first[start : start + _BLOCK] @ turned).tocsr()
        for row in range(shared.shape[0]):
            inside = slice(shared.indptr[row], shared.indptr[row + 1])
            near = np.flatnonzero(shared.data[inside] >= _SHARED)
            places, scores = shared.indices[inside][near], shared.data[inside][near]
            best = np.lexsort((places, -scores))[:_NEAREST]
            yield from ((start + row, int(place)) for place in places[best])


def _make_incidence(*lists: Sequence[str]) -> Iterator[csr_array]:
    """A matrix [texts, words] for each list, with rows of length 1 over the same words."""
    from scipy.sparse import csr_array

    rows = pl.concat(
        pl.DataFrame({"text": texts}, schema={"text": pl.String})
        .with_row_index("row")
        .select(
            pl.lit(number).alias("list"),
            "row",
            word=content_words(words_of(pl.col("text"))),
        )
        .with_columns(weight=1 / pl.col("word").list.len().sqrt())
        .explode("word")
        .drop_nulls()
        for number, texts in enumerate(lists)
    ).with_columns(word=pl.col("word").rank("dense") - 1)
    n_words = rows["word"].n_unique()
    for number, texts in enumerate(lists):
        own = rows.filter(pl.col("list") == number)
        places = own["row"].to_numpy(), own["word"].to_numpy()
        yield csr_array(
            (own["weight"].to_numpy().astype(np.float32), places),
            shape=(len(texts), n_words),
        )
