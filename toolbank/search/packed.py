"""Searching a packed finder: hits with probabilities, exact names first, and whether any fits."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.function_writer import FORMS, write_function
from toolbank.bank.records import Tool
from toolbank.encoders.onnx import OnnxNetwork, open_network
from toolbank.retrievers import answering_for
from toolbank.retrievers.base import ENCODERS, list_encoders
from toolbank.retrievers.calibration import DEPTH, Calibration
from toolbank.search.catalogue import ALL, Catalogue, NearRequest, RequestIndex, Wanted
from toolbank.search.finder import Hit, check_request
from toolbank.search.format import (
    AGAIN,
    CALIBRATION,
    RETRIEVERS,
    check_files,
    check_list,
    read_manifest,
    read_uncalibrated,
    read_version,
    version_folder,
)
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

_NAMED = 20
"""Most tools that one request can name exactly."""
_UNKNOWN = "it has no calibration"
_SIGN = re.compile(r"[._/:\-]")
_PART = re.compile(r"[^\s'\"`(),;?!<>\[\]{}]+(?:\(\))?")


@dataclass(frozen=True)
class Answer:
    """What was found for one request.

    The hits' scores fall; they are probabilities that the tool is needed, or only order the hits
    where the retriever has no calibration. Exact names come first with 1. `fits` says whether the
    best of all hits, whatever the least score, reaches the retriever's threshold: where it is False,
    probably none of them serves the request. It is None without a calibration. `pinned` are tools
    that are listed whatever was asked.
    """

    hits: tuple[Hit, ...]
    fits: bool | None
    pinned: tuple[Tool, ...] = ()


class PackedFinder:
    """One version of a packed finder, opened; threads may share it.

    `retrievers` are those that can be searched with, by their labels, the first unless another is
    named. `requests` has the bank's requests where they were packed; None where not. `pinned` are
    tools that are listed whatever was asked. `networks`, those that retrievers share, stay open as
    long as it does. A retriever that has none of `calibrations` gives
    scores that only order the hits; `uncalibrated` says why, by the retriever's label.
    """

    def __init__(
        self,
        version: str,
        catalogue: Catalogue,
        retrievers: Mapping[str, Retriever],
        calibrations: Mapping[str, Calibration] | None = None,
        requests: RequestIndex | None = None,
        pin: Sequence[str] = (),
        networks: Sequence[OnnxNetwork] = (),
        uncalibrated: Mapping[str, str] | None = None,
    ) -> None:
        self._networks = networks
        self.version, self.tools = version, catalogue
        self.retrievers, self.requests = retrievers, requests
        self.calibrations = calibrations or {}
        self.uncalibrated = uncalibrated or {}
        self.pin(pin)

    def pin(self, names: Sequence[str]) -> None:
        """List these tools whatever is asked, and no others.

        Raises:
            InputError: no tool is called so.
        """
        for name in names:
            if name not in self.tools.places:
                raise InputError(f"{name}: can't be pinned; no tool is called so.")
        self.pinned = tuple(self.tools[self.tools.places[name]] for name in names)

    def search(self, query: str, k: int = 5, retriever: str | None = None) -> list[Hit]:
        """The k best tools of a request, however little they fit; fewer if there are fewer.

        Raises:
            InputError: as `answer_many` does.
        """
        return list(self.answer(query, k, 0, retriever=retriever).hits)

    def answer(
        self,
        query: str,
        k: int = 5,
        min_score: float | None = None,
        wanted: Wanted = ALL,
        retriever: str | None = None,
    ) -> Answer:
        """What is found for one request; see `answer_many`."""
        return self.answer_many([query], k, min_score, wanted, retriever)[0]

    def answer_many(
        self,
        queries: Sequence[str],
        k: int = 5,
        min_score: float | None = None,
        wanted: Wanted = ALL,
        retriever: str | None = None,
    ) -> list[Answer]:
        """What is found for each request, in their order.

        `min_score` is the least score of a hit; unset, all hits that the retriever finds are given,
        also where none of them fits. With 0 there are always k, those that the retriever doesn't
        find behind the others with score 0.

        Raises:
            InputError: k is no whole number of at least 1, `min_score` is not from 0 to 1, a
                request is empty or no text, or there is no such retriever.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise InputError(f"k is {k!r}; it has to be a whole number, at least 1.")
        if min_score is not None and not 0 <= min_score <= 1:
            raise InputError(f"min_score is {min_score!r}; it has to be from 0 to 1.")
        asked = [check_request(query) for query in queries]
        self.pick(retriever)
        label = retriever or next(iter(self.retrievers))
        return [
            self._answer(query, int(k), min_score, wanted, label) for query in asked
        ]

    def pick(self, retriever: str | None = None) -> Retriever:
        """The retriever of a label; the first if unset.

        Raises:
            InputError: there is none of that label.
        """
        label = retriever or next(iter(self.retrievers))
        if label not in self.retrievers:
            raise InputError(
                f"No retriever {label!r}; there are: {', '.join(self.retrievers)}."
            )
        return self.retrievers[label]

    def describe(self, name: str) -> Tool | None:
        """The tool of an exact name, whatever the case; None if there is none."""
        place = self.tools.places.get(name, self.tools.calls.get(name.casefold()))
        return None if place is None else self.tools[place]

    def function(self, tool: Tool, form: str = "openai") -> dict[str, Any]:
        """A tool of the finder as a function of an API: openai, anthropic, gemini or mcp.

        Its name there is no other tool's, and `describe` takes it.

        Raises:
            InputError: there is no such form.
        """
        if form not in FORMS:
            raise InputError(f"No form {form!r}; there are: {', '.join(FORMS)}.")
        name = self.tools.functions[self.tools.places[tool.name]]
        return write_function(tool, form, name)[0]

    def nearest_requests(self, query: str, n: int = 5) -> list[NearRequest]:
        """The bank's requests nearest to a request; none where they were not packed."""
        return self.requests.nearest(query, n) if self.requests else []

    def explain_scores(self, label: str) -> str:
        """What the scores of a retriever are, and why they are no more, for people."""
        if label in self.calibrations:
            return "scores are the probability that the tool is needed"
        return f"scores only rank the hits, because {self.uncalibrated.get(label, _UNKNOWN)}"

    def _answer(
        self,
        query: str,
        k: int,
        min_score: float | None,
        wanted: Wanted,
        label: str,
    ) -> Answer:
        allowed = self.tools.wanted(wanted) if wanted else None
        named = [
            place
            for place in dict.fromkeys(self._named(query))
            if allowed is None or allowed[place]
        ][:_NAMED]
        scored = [(place, 1.0) for place in named]
        taken = set(named)
        scored += [
            (place, score)
            for place, score in self._search(query, k + len(taken), allowed, label)
            if place not in taken
        ]
        scored = scored[:k]
        if min_score == 0 and len(scored) < k:
            rest = self._rest({place for place, _ in scored}, allowed)
            scored += [(place, 0.0) for place in islice(rest, k - len(scored))]
        fits = self._fits(max((score for _, score in scored), default=0.0), label)
        if min_score is not None:
            scored = [(place, score) for place, score in scored if score >= min_score]
        hits = tuple(Hit(self.tools[place], score) for place, score in scored)
        return Answer(hits, fits, self.pinned)

    def _fits(self, best: float, label: str) -> bool | None:
        """Whether the best score reaches a retriever's threshold; None without a calibration."""
        calibration = self.calibrations.get(label)
        # A tool that the retriever doesn't find has 0, whatever the threshold.
        if calibration is None:
            return None
        return best > 0 and best >= float(calibration.threshold)

    def _rest(
        self, taken: Container[int], allowed: NDArray[np.bool_] | None
    ) -> Iterator[int]:
        """The tools that are allowed and not taken, in the catalogue's order."""
        for place in range(len(self.tools)):
            if place not in taken and (allowed is None or allowed[place]):
                yield place

    def _named(self, query: str) -> Iterator[int]:
        """The tools that a request names: by the whole of it, or by a word that is no plain one."""
        whole = query.strip()
        bare = whole.strip("`'\"")
        short = bare.removesuffix("()")
        yield from self._called(whole, bare, short)
        if (ending := self.tools.endings.get(short.casefold())) is not None:
            yield ending
        for word in _PART.findall(query):
            name = word.rstrip(".:")
            if name.endswith("()"):
                yield from self._called(name, name.removesuffix("()"))
            elif _SIGN.search(name):
                yield from self._called(name)

    def _called(self, *names: str) -> Iterator[int]:
        """The tool that goes by one of these names in its own case, or else in another."""
        places, calls = self.tools.places, self.tools.calls
        found = [places[name] for name in names if name in places] or [
            calls[name.casefold()] for name in names if name.casefold() in calls
        ]
        yield from found[:1]

    def _search(
        self,
        query: str,
        k: int,
        allowed: NDArray[np.bool_] | None,
        label: str,
    ) -> list[tuple[int, float]]:
        """Positions and probabilities of the k best tools that are allowed."""
        retriever, calibration = self.retrievers[label], self.calibrations.get(label)
        n_tools, depth = len(self.tools), max(k, DEPTH)
        if not n_tools or (allowed is not None and not allowed.any()):
            return []
        while True:
            depth = min(depth, n_tools)
            with answering_for(retriever.config, "be searched"):
                indices, scores = retriever.search([query], depth)
            hits = (indices, scores)
            if calibration is None:
                chances = _order(scores)
            else:
                chances = calibration.chances(retriever, [query], hits)
            pairs = [
                (int(place), float(chance))
                for place, chance in zip(indices[0], chances[0], strict=True)
                if place >= 0 and (allowed is None or allowed[place])
            ]
            if len(pairs) >= k or depth == n_tools or indices[0, -1] < 0:
                return sorted(pairs, key=lambda pair: -pair[1])[:k]
            depth *= 4


def read_calibration(folder: Path, label: str) -> Calibration:
    """The calibration of a version's retriever.

    Raises:
        InputError: it is missing or damaged.
    """
    calibration = Calibration()
    calibration.load_state(folder / CALIBRATION / label, {})
    return calibration


def _order(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Numbers between 0 and 1 [n, k] in the order of scores, for want of a calibration.

    Half for a score of 0; 1, which an exact name has, is not reached.
    """
    clipped = np.clip(scores.astype(np.float64), -1e9, 1e9)
    return np.asarray((1 + clipped / (1 + np.abs(clipped))) / 2)


def open_packed(
    folder: Path,
    pin: Sequence[str] = (),
    retriever: str | None = None,
    *,
    one: bool = False,
) -> PackedFinder:
    """Open the version of a packed finder that counts now, every file of it checked.

    All of it is read, or mapped into memory: it goes on when the version is deleted. With `one`,
    only a retriever is read, the first unless another is named, and no file of the others.

    Raises:
        InputError: there is no packed finder, it is of another layout, has no such retriever, or
            a file is missing or damaged.
    """
    from toolbank.retrievers import load_retriever

    version = read_version(folder)
    place = version_folder(folder, version)
    manifest = read_manifest(place)
    check_list(place, manifest)
    labels = manifest.retrievers
    if retriever is not None and retriever not in labels:
        raise InputError(
            f"{folder}: no retriever {retriever!r}; there are: {', '.join(labels)}."
        )
    if one:
        labels = (retriever or labels[0],)
    folders = [f"{RETRIEVERS}/{label}" for label in labels]
    own = [*folders, *(f"{CALIBRATION}/{label}" for label in labels)]
    check_files(place, manifest, lambda name: _lies_in(name, own))
    encoders = sorted({name for one in folders for name in list_encoders(place / one)})
    shared = [f"{ENCODERS}/{name}" for name in encoders]
    aside = (RETRIEVERS, CALIBRATION, ENCODERS)
    check_files(
        place,
        manifest,
        lambda name: _lies_in(name, shared) or not _lies_in(name, aside),
    )
    networks = [open_network(place / one) for one in shared]
    loaded = {
        label: load_retriever(place / one)
        for label, one in zip(labels, folders, strict=True)
    }
    names = next(iter(loaded.values())).tools
    for label, found in loaded.items():
        if found.tools != names:
            raise InputError(
                f"{place / RETRIEVERS / label}: damaged (of other tools). {AGAIN}"
            )
    uncalibrated = read_uncalibrated(place, manifest)
    calibrations = {
        label: read_calibration(place, label)
        for label in labels
        if label not in uncalibrated
    }
    requests = RequestIndex.read(place) if RequestIndex.lies_in(place) else None
    if requests is not None and not one:
        requests.prepare()
    catalogue = Catalogue(place, names)
    return PackedFinder(
        version,
        catalogue,
        loaded,
        calibrations,
        requests,
        pin,
        networks,
        uncalibrated,
    )


def _lies_in(name: str, folders: Iterable[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)
