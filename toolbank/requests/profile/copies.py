"""Find requests that are copies of others: the same words, nearly the same, or near by vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.encoders import load_encoder
from toolbank.encoders.config import EncoderConfig
from toolbank.requests.judge.summary import read_sides
from toolbank.requests.profile import CopiesConfig
from toolbank.requests.write.near_duplicates import NearDuplicates, compared_words
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.numbers import count

How = Literal["same", "jaccard", "cosine"]

_EXAMPLES = 10
# Vectors are compared of texts whose sets of words have such a cosine, with so many others at most.
# All 12 pairs with a cosine of vectors of 0.95 that were found without this limit are within it.
_SHARED, _NEAREST = 0.6, 2
_BLOCK = 64
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
        found = (
            f"copies of {self.against} in {self.of}: {self.total:,} of "
            f"{count(self.requests, 'request')}"
        )
        if not self.total:
            return found
        by = ", ".join(f"{name} {number:,}" for name, number in parts.items() if number)
        return f"{found} ({by}); they copy {self.copied:,} of {self.others:,}"


@dataclass(frozen=True)
class Copies:
    """copies.json: the thresholds, the encoder or "", and the counts of each pair of sets."""

    jaccard: float
    cosine: float | None
    encoder: str
    sets: list[CopyCounts]


class Match(NamedTuple):
    """A similar text of another list, by all the places that have its words."""

    places: list[int]
    how: How
    score: float


def find_copies(
    texts: Sequence[str],
    others: Sequence[str],
    limits: CopiesConfig,
    encoder: EncoderConfig | None = None,
) -> dict[int, list[Match]]:
    """Find for each text the similar ones among others, the most similar first; texts by place.

    - same: the same words in the same order; case and punctuation do not count
    - jaccard: a Jaccard index of the runs of three words of at least `limits.jaccard`; exact
    - cosine: vectors with a cosine of at least `limits.cosine`. Only the two others with the most
      words in common are compared, and only if the cosine of the sets of content words is at least
      0.6, so that few of many texts have to be embedded.

    Raises:
        InputError: the encoder can't be loaded.
    """
    own, known = _group_same(texts), _group_same(others)
    keys = [*known]
    seen = NearDuplicates(limits.jaccard, keys.__getitem__)
    for key in keys:
        seen.add(key)
    # By the numbers of distinct texts and distinct others.
    found: list[dict[int, tuple[How, float]]] = [
        {
            other: ("same" if key == keys[other] else "jaccard", jaccard)
            for other, jaccard in seen.find_all(key)
        }
        for key in own
    ]
    if encoder is not None and limits.cosine is not None:
        first = [texts[places[0]] for places in own.values()]
        second = [others[places[0]] for places in known.values()]
        pairs = [
            (row, other)
            for row, other in _share_words(first, second)
            if other not in found[row]
        ]
        for row, other, cosine in _compare_vectors(first, second, pairs, encoder):
            if cosine >= limits.cosine:
                found[row][other] = "cosine", cosine
    order = get_args(How)
    copies: dict[int, list[Match]] = {}
    for places, matches in zip(own.values(), found, strict=True):
        ranked = sorted(
            (Match(known[keys[other]], *how) for other, how in matches.items()),
            key=lambda one: (order.index(one.how), -one.score, one.places),
        )
        copies |= dict.fromkeys(places, ranked) if ranked else {}
    return dict(sorted(copies.items()))


def _group_same(texts: Sequence[str]) -> dict[str, list[int]]:
    """The places of texts with the same words in the same order, by these words."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        words = " ".join(compared_words(text.casefold()))
        places.setdefault(words, []).append(place)
    return places


MISSING = "requests that no tool fits"
"""The name of these requests as a set in which copies are looked for."""


def count_copies(
    bank: Bank,
    limits: CopiesConfig,
    examples: Sequence[str] = (),
    encoder: EncoderConfig | None = None,
) -> list[CopyCounts]:
    """Count the copies between the parts of a bank, and with other sets.

    Held-out requests are looked for in train, asks and, for those of test, in validation; requests
    that no tool fits, the `examples` of the prompts, and the sets of `limits.against` in all parts.

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
            encoder,
        ),
        *_count("validation", _texts(parts["validation"]), learnt, limits, encoder),
        *_count("examples of the prompts", examples, parts, limits, encoder),
    ]
    if bank.missing:
        counts += _count(MISSING, _texts(bank.missing), parts, limits, encoder)
    for path in limits.against:
        others = [side.text for side in read_sides(path)]
        counts += _count(path.resolve().name, others, parts, limits, encoder)
    return counts


def find_dropped(
    texts: Sequence[str],
    queries: Iterable[Query],
    limits: CopiesConfig,
    encoder: EncoderConfig | None,
) -> list[int]:
    """Find the places of texts to drop: copies of held-out queries, or of a set of `against`.

    Raises:
        InputError: as of `count_copies`.
    """
    if not limits.drop:
        return []
    others = [one.query for one in queries if one.split in ("test", "validation")]
    for path in limits.against:
        others += [side.text for side in read_sides(path)]
    return [*find_copies(texts, others, limits, encoder)]


def _texts(queries: Sequence[Query]) -> list[str]:
    return [query.query for query in queries]


def _count(
    against: str,
    others: Sequence[str],
    parts: Mapping[str, Sequence[Query]],
    limits: CopiesConfig,
    encoder: EncoderConfig | None,
) -> Iterator[CopyCounts]:
    """The copies in each part that has requests, of a set that has some."""
    rows = [(of, query) for of, part in parts.items() for query in part]
    texts = [query.query for _, query in rows]
    found = find_copies(texts, others, limits, encoder) if others else {}
    for of, part in parts.items():
        if not part or not others:
            continue
        inside = {place: one for place, one in found.items() if rows[place][0] == of}
        copies = [
            Copy(
                rows[place][1].id,
                texts[place],
                others[best.places[0]],
                best.how,
                round(best.score, 4),
            )
            for place, (best, *_) in inside.items()
        ]
        copies.sort(key=lambda one: -one.score)
        numbers = {how: sum(one.how == how for one in copies) for how in get_args(How)}
        copied = {one.places[0]: one for many in inside.values() for one in many}
        yield CopyCounts(
            of,
            against,
            len(part),
            len(others),
            copied=sum(len(one.places) for one in copied.values()),
            examples=copies[:_EXAMPLES],
            **numbers,
        )


def _compare_vectors(
    texts: Sequence[str],
    others: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    encoder: EncoderConfig,
) -> Iterator[tuple[int, int, float]]:
    """The cosine of the vectors of each pair of a text and another."""
    if not pairs:
        return
    embed = load_encoder(encoder).encode_queries
    for start in range(0, len(pairs), _BATCH):
        rows, columns = zip(*pairs[start : start + _BATCH], strict=True)
        first = embed([texts[row] for row in rows])
        second = embed([others[column] for column in columns])
        cosines = np.einsum("nd,nd->n", first, second).tolist()
        yield from zip(rows, columns, cosines, strict=True)


def _share_words(
    texts: Sequence[str], others: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """The pairs of a text and another that share enough words, the best by BM25 first."""
    index = LexicalIndex.of(others)
    words = [set(compared_words(text)) for text in others]
    most = min(_NEAREST, len(others))
    for start in range(0, len(texts), _BLOCK):
        scores = index.scores(texts[start : start + _BLOCK])
        nearest = np.argpartition(-scores, most - 1, axis=1)[:, :most]
        for place, row in enumerate(nearest.tolist(), start):
            own = set(compared_words(texts[place]))
            for other in row:
                shared = len(own & words[other])
                if shared and shared**2 >= _SHARED**2 * len(own) * len(words[other]):
                    yield place, other
