"""Requests to calibrate on: labelled, and other than those that retrievers have learnt from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.datasets.jsonl import LabelledRequests
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

LEAST = 20
"""Requests that a calibration needs at least."""
NEAR = 0.8
"""The cosine above which a request nearly repeats a train request."""
MOST_NEAR = 0.2
"""The share of validation requests that may nearly repeat a train request, itself excluded."""
REMEDY = (
    f"To calibrate, label at least {LEAST} requests in people's own words in a file of evaluate.on, "
    "and run the recipe again."
)
_BLOCK = 1_000
_NO_WORD = re.compile(r"\W+")

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class Nearness:
    """How many of `n` requests nearly repeat a train request; None without an encoder."""

    n: int
    near: int | None

    @property
    def is_near(self) -> bool:
        """Whether too many do, so that what is learned from them does not hold for others."""
        return bool(self.near) and (self.near or 0) >= MOST_NEAR * self.n

    def describe(self, what: str) -> str:
        """Return a sentence such as "41 of 98 validation requests nearly repeat ..."."""
        near, n = self.near or 0, self.n
        verb = "repeats" if near == 1 else "repeat"
        return (
            f"{near:,} of {count(n, f'{what} request')} ({near / n:.0%}) nearly {verb} a train "
            f"request (cosine above {NEAR})"
        )


class TrainRequests:
    """The requests that a bank's retrievers learn from, asks among them."""

    def __init__(self, bank: Bank, find_encoder: Callable[[], Embed]) -> None:
        """Read the bank; `find_encoder` is called on the first measurement."""
        self._texts = list(dict.fromkeys(query.query for query in bank.train_queries))
        self._words = {_bare(text) for text in self._texts}
        self._find_encoder = find_encoder
        self.why_unknown = ""
        """Why nearness can't be measured; "" as long as it can."""

    def __contains__(self, text: str) -> bool:
        """Whether a train request has the same words in the same order."""
        return _bare(text) in self._words

    def measure(self, texts: Sequence[str]) -> Nearness:
        """Count the texts that have a train request with a cosine above `NEAR`."""
        n = len(texts)
        if not n or not self._words:
            return Nearness(n, 0)
        if self._vectors is None:
            return Nearness(n, None)
        embed, train = self._vectors
        vectors = embed(texts)
        highest = np.full(n, -1.0, np.float32)
        for start in range(0, len(train), _BLOCK):
            cosines = vectors @ train[start : start + _BLOCK].T
            highest = np.maximum(highest, cosines.max(axis=1))
        return Nearness(n, int(np.sum(highest > NEAR)))

    @cached_property
    def _vectors(self) -> tuple[Embed, NDArray[np.float32]] | None:
        try:
            embed = self._find_encoder()
            return embed, embed(self._texts)
        except InputError as error:
            self.why_unknown = str(error)
            return None


def find_plain_encoder() -> Embed:
    """Load the plain all-MiniLM-L6-v2, if it is on this machine.

    Raises:
        InputError: it is not, or a library that runs it is missing.
    """
    from toolbank.encoders import load_encoder
    from toolbank.encoders.model import find_local_model
    from toolbank.encoders.sentence import DEFAULT_MODEL, SentenceConfig
    from toolbank.system.extras import install_advice, naming_extras

    with naming_extras():
        if find_local_model(DEFAULT_MODEL) is None:
            raise InputError(
                f"{DEFAULT_MODEL} is not on this machine. {install_advice('minilm')}"
            )
        return load_encoder(SentenceConfig()).encode_queries


@dataclass(frozen=True)
class CalibrationRequests:
    """Requests to calibrate on, or the reason why there are none.

    `origin` describes the `queries`, such as "20 requests of evaluate.on". `missing` are texts that
    no tool fits, and `missing_origin` describes them. `skipped` counts the unusable requests of
    evaluate.on by reason. `near` is the nearness of validation, test and evaluate.on.
    """

    queries: tuple[Query, ...] = ()
    origin: str = ""
    missing: tuple[str, ...] = ()
    missing_origin: str = ""
    reason: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    near: Mapping[str, Nearness] = field(default_factory=dict)

    def describe_skipped(self) -> str:
        """Say how many requests of evaluate.on are unusable, and why; "" if none is."""
        if not self.skipped:
            return ""
        why = "; ".join(f"{n:,}: {reason}" for reason, n in self.skipped.items())
        n = sum(self.skipped.values())
        return f"evaluate.on: {count(n, 'request')} not used to calibrate ({why})"

    def warn_of_near(self) -> list[str]:
        """Return a sentence for each set with too many near repeats of train requests."""
        return [
            f"{near.describe(name)}: figures on them, and what is chosen or calibrated by them, "
            "favour methods that learn from requests."
            for name, near in self.near.items()
            if near.is_near
        ]


def choose_requests(
    bank: Bank,
    files: Sequence[LabelledRequests],
    train: TrainRequests,
    *,
    copied: bool = False,
    unreadable: Sequence[str] = (),
) -> CalibrationRequests:
    """Choose the requests to calibrate on, of which at least `LEAST` are needed.

    The first choice is the labelled requests of `files`, those of evaluate.on. If they are too few,
    the choices of feedback logs among the files are added. If there are still too few, the bank's
    validation requests are used, unless a share of `MOST_NEAR` of them nearly repeats a train
    request or they are `copied` from the reference's own words. A request of a file is skipped if
    it labels a tool that the bank lacks or repeats a train request word for word. Requests with the
    same text count once. `unreadable` are the names of unreadable files.

    The missing-tool queries of train and validation are chosen in addition, since no retriever is
    trained on them: those that are graded or of a dataset. Without any, it is those of `files`.
    """
    skipped = Counter(f"{name} can't be read" for name in unreadable)
    labelled: list[Query] = []
    choices: list[Query] = []
    for file in files:
        for query in file.queries:
            if any(name not in bank.index for name in query.tools):
                skipped["a label names a tool that the bank lacks"] += 1
            elif query.query in train:
                skipped["a train request has the same words"] += 1
            else:
                kept = choices if query.id in file.choices else labelled
                # An id of the bank's own would bring that request's verified labels.
                kept.append(query.model_copy(update={"id": f"{file.name}:{query.id}"}))
    validation = _merge(
        query
        for query in bank.split("validation")
        if all(name in bank.index for name in query.tools)
    )
    sets = {
        "validation": validation,
        "test": bank.split("test"),
        "evaluate.on": (*labelled, *choices),
    }
    near = {
        name: train.measure([query.query for query in queries])
        for name, queries in sets.items()
        if queries
    }

    missing, missing_origin = _choose_missing(bank, files)
    give = partial(
        CalibrationRequests,
        missing=missing,
        missing_origin=missing_origin,
        skipped=dict(skipped),
        near=near,
    )
    names = ", ".join(file.name for file in files)
    usable = _merge((*labelled, *choices))
    for queries, source in ((_merge(labelled), ""), (usable, ", choices among them")):
        if len(queries) >= LEAST:
            n = count(len(queries), "request")
            return give(queries, f"{n} of evaluate.on{source} ({names})")
    reason = _explain_validation(validation, near.get("validation"), train, copied)
    if not reason:
        return give(validation, count(len(validation), "validation request"))
    if files or unreadable:
        reason += (
            f", and evaluate.on has {count(len(usable), 'usable request')} of the {LEAST} that are "
            "needed"
        )
    return give(reason=reason)


def _choose_missing(
    bank: Bank, files: Sequence[LabelledRequests]
) -> tuple[tuple[str, ...], str]:
    """Choose texts that no tool fits, and describe where they are from."""
    own = (
        query.query
        for query in bank.missing
        if query.split in ("train", "validation") and query.id in bank.sure_missing
    )
    if texts := tuple(dict.fromkeys(own)):
        n = count(len(texts), "request")
        return texts, f"{n} of train and validation that no tool fits"
    labelled = [file for file in files if file.missing]
    texts = tuple(dict.fromkeys(q.query for file in labelled for q in file.missing))
    names = ", ".join(file.name for file in labelled)
    n = count(len(texts), "request")
    return texts, f"{n} of evaluate.on that no tool fits ({names})" if texts else ""


def _explain_validation(
    queries: Sequence[Query],
    near: Nearness | None,
    train: TrainRequests,
    copied: bool,
) -> str:
    """Say why validation requests do not serve; "" if they do."""
    if len(queries) < LEAST or near is None:
        few = count(len(queries), "validation request is", "validation requests are")
        return f"{few} too few ({LEAST} are needed)"
    if copied:
        return "the validation requests are in the reference's own words"
    if near.near is None:
        why = train.why_unknown.rstrip(".")
        return (
            "it is not known whether the validation requests nearly repeat train requests "
            f"({why})"
        )
    return near.describe("validation") if near.is_near else ""


def _merge(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Keep each text once, with the tools of all requests that have it."""
    merged: dict[str, Query] = {}
    for query in queries:
        key = _bare(query.query) or query.query
        same = merged.get(key, query)
        tools = tuple(dict.fromkeys((*same.tools, *query.tools)))
        merged[key] = same.model_copy(update={"tools": tools})
    return tuple(merged.values())


def _bare(text: str) -> str:
    """The words of a text, without punctuation and case."""
    return _NO_WORD.sub(" ", text).strip().casefold()
