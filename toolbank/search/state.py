"""The retrievers of a finder with their tools: find the tools for a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits
from toolbank.bank.records import Tool
from toolbank.retrievers.calibration import DEPTH, Calibration
from toolbank.search.catalogue import RequestIndex, ToolCatalogue
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras

if TYPE_CHECKING:
    from toolbank.encoders.onnx import OnnxNetwork
    from toolbank.retrievers.base import Retriever

_SIGN = re.compile(r"[._/:\-]")
_PART = re.compile(r"[^\s'\"`(),;?!<>\[\]{}]+(?:\(\))?")


@dataclass(frozen=True)
class FinderState:
    """Retrievers and the tools in their indices; it is replaced as a whole, never changed.

    Mappings go by the labels of retrievers. `networks` are shared by encoders that open them later.
    """

    retrievers: Mapping[str, Retriever]
    tools: ToolCatalogue
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    uncalibrated: Mapping[str, str] = field(default_factory=dict)
    pinned: tuple[Tool, ...] = ()
    requests: RequestIndex | None = None
    networks: tuple[OnnxNetwork, ...] = ()

    def pick(self, label: str | None) -> str:
        """Check the label of a retriever; if unset, return the first one.

        Raises:
            InputError: there is no such retriever.
        """
        if label is not None and label not in self.retrievers:
            raise InputError(
                f"No retriever {label!r}; there are: {', '.join(self.retrievers)}."
            )
        return label or next(iter(self.retrievers))

    def find_named(self, query: str) -> Iterator[int]:
        """Find tools that the query names, as a whole or by a word that looks like an identifier."""
        whole = query.strip()
        bare = whole.strip("`'\"")
        short = bare.removesuffix("()")
        named: list[tuple[str, ...]] = [(whole, bare, short)]
        for word in _PART.findall(query):
            name = word.rstrip(".:")
            if name.endswith("()"):
                named.append((name, name.removesuffix("()")))
            elif _SIGN.search(name):
                named.append((name,))
        places, calls = self.tools.places, self.tools.calls
        for n, names in enumerate(named):
            # In the same case, or else in another.
            found = [places[name] for name in names if name in places] or [
                calls[name.casefold()] for name in names if name.casefold() in calls
            ]
            yield from found[:1]
            if (
                not n
                and (ending := self.tools.endings.get(short.casefold())) is not None
            ):
                yield ending

    def rank(self, queries: Sequence[str], k: int, label: str) -> Hits:
        """Search with a retriever; the scores are its own.

        Raises:
            InputError: a library that it needs is missing.
        """
        with naming_extras():
            return self.retrievers[label].search(queries, k)

    def find(
        self, query: str, k: int, allowed: NDArray[np.bool_], label: str
    ) -> list[tuple[int, float]]:
        """Find the top k of the allowed tools: positions, with scores from 0 to 1."""
        retriever, calibration = self.retrievers[label], self.calibrations.get(label)
        n_tools, depth = len(self.tools), max(k, DEPTH)
        if not allowed.any():
            return []
        while True:
            depth = min(depth, n_tools)
            indices, scores = hits = self.rank([query], depth, label)
            if calibration is None:
                chances = _squash(scores)
            else:
                chances = calibration.chances(retriever, [query], hits)
            pairs = [
                (int(place), float(chance))
                for place, chance in zip(indices[0], chances[0], strict=True)
                if place >= 0 and allowed[place]
            ]
            if len(pairs) >= k or depth == n_tools or indices[0, -1] < 0:
                return sorted(pairs, key=lambda pair: -pair[1])[:k]
            depth *= 4


def _squash(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Map scores [n, k] to numbers between 0 and 1 in the same order, without a calibration.

    A score of 0 becomes 0.5. The score of an exact name, 1, is not reached.
    """
    clipped = np.clip(scores.astype(np.float64), -1e9, 1e9)
    return np.asarray((1 + clipped / (1 + np.abs(clipped))) / 2)
