"""Find tools, wherever the finder came from: search, answer, add, remove, save, pack."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.function_writer import (
    FORMS,
    gemini_name,
    wrap_functions,
    write_function,
)
from toolbank.bank.ranking import Hits
from toolbank.bank.records import Tool
from toolbank.encoders.config import Precision
from toolbank.encoders.onnx import OnnxNetwork, open_network
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import ENCODERS, Packing, list_encoders
from toolbank.retrievers.calibration import DEPTH, Calibration
from toolbank.search.arguments import (
    check_asks,
    check_number,
    check_request,
    make_tools,
)
from toolbank.search.catalogue import (
    ALL,
    NearRequest,
    RequestIndex,
    ToolCatalogue,
    ToolFilter,
)
from toolbank.search.folder import (
    AGAIN,
    CALIBRATION,
    RETRIEVERS,
    UNCALIBRATED,
    check_files,
    check_free,
    check_list,
    is_former_save,
    read_manifest,
    read_uncalibrated,
    read_version,
    version_folder,
    write_version,
)
from toolbank.system.errors import InputError
from toolbank.system.extras import telling_extras
from toolbank.system.files import write_json

if TYPE_CHECKING:
    from toolbank.retrievers.base import Asks, Retriever

Calibrate = Callable[["Retriever", "Retriever"], Calibration | str]
"""Calibrates a retriever as it was packed, given that and the one that it was packed from.

A text says why it has no calibration.
"""
_NAMED = 20
"""Most tools that one request can name exactly."""
_UNKNOWN = "it has no calibration"
_NO_REQUESTS = "it was packed without requests to calibrate on"
_ADDED = (
    "tools were added since it was calibrated. To calibrate it anew, pack a run that has them: "
    "toolbank pack RUN --out DIR."
)
_SIGN = re.compile(r"[._/:\-]")
_PART = re.compile(r"[^\s'\"`(),;?!<>\[\]{}]+(?:\(\))?")


@dataclass(frozen=True)
class Hit:
    """A tool that was found, and how well it fits: see `Finder.search`."""

    tool: Tool
    score: float


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


@dataclass(frozen=True)
class _State:
    """Retrievers, and the tools that their indices stand for; nothing of it is ever changed."""

    retrievers: Mapping[str, Retriever]
    tools: ToolCatalogue
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    uncalibrated: Mapping[str, str] = field(default_factory=dict)
    pinned: tuple[Tool, ...] = ()

    def pick(self, label: str | None) -> str:
        """The label of a retriever; that of the first if unset.

        Raises:
            InputError: there is none of that label.
        """
        if label is not None and label not in self.retrievers:
            raise InputError(
                f"No retriever {label!r}; there are: {', '.join(self.retrievers)}."
            )
        return label or next(iter(self.retrievers))

    def find_named(self, query: str) -> Iterator[int]:
        """The tools that a request names: by the whole of it, or by a word that is no plain one."""
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
            # In its own case, or else in another.
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
        """What a retriever itself finds.

        Raises:
            InputError: another package brings it, and it fails.
        """
        retriever = self.retrievers[label]
        try:
            return retriever.search(queries, k)
        except Exception:
            with telling_extras():
                raise

    def find(
        self, query: str, k: int, allowed: NDArray[np.bool_] | None, label: str
    ) -> list[tuple[int, float]]:
        """Positions of the k best tools that are allowed, with scores from 0 to 1."""
        retriever, calibration = self.retrievers[label], self.calibrations.get(label)
        n_tools, depth = len(self.tools), max(k, DEPTH)
        if not n_tools or (allowed is not None and not allowed.any()):
            return []
        while True:
            depth = min(depth, n_tools)
            indices, scores = hits = self.rank([query], depth, label)
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


class Finder:
    """Fitted retrievers together with what is known of their tools.

    Threads may share one. A search works on the tools that were there when it began; what is
    added or removed meanwhile, one change after the other, is there for the next one.

    `packed` says that its retrievers run without torch; `version` is that of its folder, "" if it
    was not opened from one. `requests` has the bank's requests where they were packed; None where
    not.
    """

    def __init__(
        self,
        retrievers: Retriever | Mapping[str, Retriever],
        tools: Sequence[Tool],
        requests: RequestIndex | None = None,
        *,
        packed: bool = False,
    ) -> None:
        """Search these tools by a retriever, or by several, the first unless another is named."""
        if not isinstance(retrievers, Mapping):
            retrievers = {retrievers.name: retrievers}
        if not isinstance(tools, ToolCatalogue):
            tools = ToolCatalogue(tuple(tools))
        self._state = _State(retrievers, tools)
        self._changing = Lock()
        self.packed, self.version, self.requests = packed, "", requests
        self._networks: tuple[OnnxNetwork, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has of it: all but the lock."""
        return {k: v for k, v in self.__dict__.items() if k != "_changing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._changing = Lock()

    @classmethod
    def open(
        cls, folder: Path, retriever: str | None = None, *, one: bool = False
    ) -> Self:
        """Open the version of a saved or packed finder that counts now, every file of it checked.

        Of a packed one, all is read, or mapped into memory: it goes on when the version is deleted.
        With `one`, only a retriever is read, the first unless another is named, and no file of the
        others.

        Raises:
            InputError: there is no finder, it is of another layout, has no such retriever, or a
                file is missing or damaged.
        """
        if is_former_save(folder):
            from toolbank.bank.files import read_tools

            saved = load_retriever(folder / "retriever")
            tools = folder / "tools.parquet"
            _check_label(folder, retriever, (saved.name,))
            finder = cls(saved, read_tools(tools))
            if saved.tools != finder.tools.names:
                raise InputError(f"{tools}: damaged (not the retriever's tools).")
            return finder
        version = read_version(folder)
        place = version_folder(folder, version)
        manifest = read_manifest(place)
        check_list(place, manifest)
        labels = manifest.retrievers
        _check_label(folder, retriever, labels)
        if one:
            labels = (retriever or labels[0],)
        folders = [f"{RETRIEVERS}/{label}" for label in labels]
        shared: list[str] = []
        if manifest.packed:
            named = {name for one in folders for name in list_encoders(place / one)}
            shared = [f"{ENCODERS}/{name}" for name in sorted(named)]
        read = (*folders, *shared, *(f"{CALIBRATION}/{label}" for label in labels))
        aside = (RETRIEVERS, CALIBRATION, ENCODERS)
        check_files(
            place,
            manifest,
            lambda name: _lies_in(name, read) or not _lies_in(name, aside),
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
            label: _read_calibration(place / CALIBRATION / label)
            for label in labels
            if manifest.packed and label not in uncalibrated
        }
        finder = cls(loaded, ToolCatalogue.read(place, names), packed=manifest.packed)
        finder._state = replace(
            finder._state, calibrations=calibrations, uncalibrated=uncalibrated
        )
        finder.version, finder._networks = version, tuple(networks)
        finder.requests = RequestIndex.read(place)
        if finder.requests is not None and not one:
            finder.requests.prepare()
        return finder

    @property
    def retrievers(self) -> Mapping[str, Retriever]:
        """The retrievers as they are now, by their labels; the first is searched with."""
        return self._state.retrievers

    @property
    def retriever(self) -> Retriever:
        """The first of them."""
        return next(iter(self._state.retrievers.values()))

    @property
    def tools(self) -> ToolCatalogue:
        """The tools that are found now, those of the fit before those added."""
        return self._state.tools

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """What scores mean, by the labels of retrievers."""
        return self._state.calibrations

    @property
    def uncalibrated(self) -> Mapping[str, str]:
        """Why retrievers have no calibration, by their labels."""
        return self._state.uncalibrated

    @property
    def pinned(self) -> tuple[Tool, ...]:
        """Tools that are listed whatever was asked."""
        return self._state.pinned

    def add_tools(self, tools: Iterable[Any], asks: Asks | None = None) -> None:
        """Have tools found that were not there in the fit; nothing is trained.

        Each is a `Tool`, a function with a docstring, or a dict with a name, a description and
        parameters: plain, as of MCP, or in the function-calling form of chat-completions APIs.
        The result of MCP's tools/list, {"tools": [...]}, is taken for the list in it.
        `save` keeps them. A finder with calibrations has none afterwards.

        `asks` are requests for some of them, {name: [request, ...]}, by which Tool2Vec, MLC,
        nearest neighbours, BM25 with `requests` and what is built on them find a tool far better
        than by its description.

        Raises:
            InputError: one of them is there already, has no name or no description, or can't be
                read; or the asks are no such texts, or of another tool; then none is added.
        """
        added, asks = make_tools(tools), check_asks(asks)
        with self._changing:
            now = self._state
            grown = {
                label: one.add_tools(added, asks)
                for label, one in now.retrievers.items()
            }
            names = (*now.tools.names, *(tool.name for tool in added))
            reasons = dict.fromkeys(now.calibrations, _ADDED)
            self._state = replace(
                now,
                retrievers=grown,
                tools=ToolCatalogue((*now.tools, *added), names),
                calibrations={},
                uncalibrated={**now.uncalibrated, **reasons},
            )

    def remove_tools(self, names: Iterable[str]) -> None:
        """Have tools, by their names, no longer found.

        Raises:
            InputError: there is no tool of one of these names; then none is removed.
        """
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise InputError(
                "remove_tools takes a list of names: remove_tools([name])."
            )
        gone = list(names)
        for name in gone:
            if not isinstance(name, str):
                raise InputError(f"{name!r} is no name of a tool; give tool.name.")
        absent = set(gone)
        with self._changing:
            now = self._state
            fewer = {
                label: one.remove_tools(gone) for label, one in now.retrievers.items()
            }
            left = tuple(tool for tool in now.tools if tool.name not in absent)
            self._state = replace(
                now,
                retrievers=fewer,
                tools=ToolCatalogue(left),
                pinned=tuple(tool for tool in now.pinned if tool.name not in absent),
            )

    def pin(self, names: Sequence[str]) -> None:
        """List these tools whatever is asked, and no others.

        Raises:
            InputError: no tool is called so.
        """
        with self._changing:
            tools = self._state.tools
            for name in names:
                if name not in tools.places:
                    raise InputError(f"{name}: can't be pinned; no tool is called so.")
            pinned = tuple(tools[tools.places[name]] for name in names)
            self._state = replace(self._state, pinned=pinned)

    def search(self, query: str, k: int = 5, retriever: str | None = None) -> list[Hit]:
        """Find the k tools that serve a request best, best first; fewer if fewer fit at all.

        Scores are the retriever's own. A packed finder gives what `answer` gives for `min_score`
        0: k tools where there are so many, with scores from 0 to 1, exact names first.

        Raises:
            InputError: as `search_many` does.
        """
        return self.search_many([query], k, retriever)[0]

    def search_many(
        self, queries: Sequence[str], k: int = 5, retriever: str | None = None
    ) -> list[list[Hit]]:
        """Find the k best tools of every request; faster than one by one, unless it is packed.

        Raises:
            InputError: k is no whole number of at least 1, a request is empty or no text, or there
                is no such retriever.
        """
        if self.packed:
            answers = self.answer_many(queries, k, 0, retriever=retriever)
            return [list(answer.hits) for answer in answers]
        return self.rank(queries, k, retriever)

    def rank(
        self, queries: Sequence[str], k: int = 5, retriever: str | None = None
    ) -> list[list[Hit]]:
        """The k best tools of every request with the retriever's own scores, packed or not.

        Raises:
            InputError: as `search_many` does.
        """
        k, asked = check_number(k), _check_requests(queries)
        now = self._state
        label = now.pick(retriever)
        if not now.tools:
            return [[] for _ in asked]
        indices, scores = now.rank(asked, min(k, len(now.tools)), label)
        return [
            [
                Hit(now.tools[index], float(score))
                for index, score in zip(row, row_scores, strict=True)
                if index >= 0
            ]
            for row, row_scores in zip(indices, scores, strict=True)
        ]

    def answer_many(
        self,
        queries: Sequence[str],
        k: int = 5,
        min_score: float | None = None,
        wanted: ToolFilter = ALL,
        retriever: str | None = None,
    ) -> list[Answer]:
        """What is found for each request, in their order; see `answer`."""
        asked = _check_requests(queries)
        return [self.answer(one, k, min_score, wanted, retriever) for one in asked]

    def answer(
        self,
        query: str,
        k: int = 5,
        min_score: float | None = None,
        wanted: ToolFilter = ALL,
        retriever: str | None = None,
    ) -> Answer:
        """What is found for a request.

        `min_score` is the least score of a hit; unset, all hits that the retriever finds are given,
        also where none of them fits. With 0 there are always k, those that the retriever doesn't
        find behind the others with score 0.

        Raises:
            InputError: k is no whole number of at least 1, `min_score` is not from 0 to 1, the
                request is empty or no text, no tool has what is wanted, or there is no such
                retriever.
        """
        k, query = check_number(k), check_request(query)
        if min_score is not None and not 0 <= min_score <= 1:
            raise InputError(f"min_score is {min_score!r}; it has to be from 0 to 1.")
        now = self._state
        label, allowed = now.pick(retriever), now.tools.select(wanted)
        named = dict.fromkeys(
            place
            for place in now.find_named(query)
            if allowed is None or allowed[place]
        )
        scored = dict.fromkeys(islice(named, _NAMED), 1.0)
        for place, score in now.find(query, k + len(scored), allowed, label):
            scored.setdefault(place, score)
        scored = dict(islice(scored.items(), k))
        if min_score == 0 and len(scored) < k:
            rest = (
                place
                for place in range(len(now.tools))
                if place not in scored and (allowed is None or allowed[place])
            )
            scored |= dict.fromkeys(islice(rest, k - len(scored)), 0.0)
        fits, best = None, max(scored.values(), default=0.0)
        if (calibration := now.calibrations.get(label)) is not None:
            # A tool that the retriever doesn't find has 0, whatever the threshold.
            fits = best > 0 and best >= float(calibration.threshold)
        hits = tuple(
            Hit(now.tools[place], score)
            for place, score in scored.items()
            if min_score is None or score >= min_score
        )
        return Answer(hits, fits, now.pinned)

    def describe(self, name: str) -> Tool | None:
        """The tool of an exact name, whatever the case; None if there is none."""
        tools = self._state.tools
        place = tools.places.get(name, tools.calls.get(name.casefold()))
        return None if place is None else tools[place]

    def function(self, tool: Tool, form: str = "openai") -> dict[str, Any]:
        """A tool of the finder as a function of an API: openai, anthropic, gemini or mcp.

        Its name there is no other tool's, and `describe` takes it.

        Raises:
            InputError: there is no such form.
        """
        if form not in FORMS:
            raise InputError(f"No form {form!r}; there are: {', '.join(FORMS)}.")
        tools = self._state.tools
        return write_function(tool, form, tools.functions[tools.places[tool.name]])[0]

    def as_tools(
        self,
        query: str,
        k: int = 5,
        format: str = "openai",  # noqa: A002 - what such an argument is called
    ) -> list[dict[str, Any]]:
        """The k tools that serve a request best, as the `tools` of a request to a model.

        `format` is openai, anthropic, gemini or mcp. No two tools have one name there, and
        `find_function` gives the tool of a name that a model calls. A schema that refers to
        itself is cut where the form can't hold it: see `toolbank.bank.function_writer`.

        Raises:
            InputError: as `search` does, or there is no such format.
        """
        if format not in FORMS:
            raise InputError(f"No format {format!r}; there are: {', '.join(FORMS)}.")
        tools = self._state.tools
        functions = []
        for hit in self.search(query, k):
            name = tools.functions[tools.places[hit.tool.name]]
            function, cut = write_function(hit.tool, format, name)
            functions.append(function)
            if cut:
                warnings.warn(f"{hit.tool.name} as {format}: {cut}", stacklevel=2)
        return wrap_functions(functions, format)

    def find_function(self, name: str) -> Tool:
        """The tool that goes by a name in `as_tools`.

        Raises:
            InputError: there is none.
        """
        tools = self._state.tools
        for place, function in enumerate(tools.functions):
            if name in (function, gemini_name(function)):
                found: Tool = tools[place]
                return found
        raise InputError(f"No tool goes by {name!r} as a function.")

    def nearest_requests(self, query: str, n: int = 5) -> list[NearRequest]:
        """The bank's requests nearest to a request; none where they were not packed."""
        return self.requests.nearest(query, n) if self.requests else []

    def explain_scores(self, label: str) -> str:
        """What the scores of a retriever in an `answer` are, and why they are no more, for people."""
        now = self._state
        if label in now.calibrations:
            return "scores are the probability that the tool is needed"
        return f"scores only rank the hits, because {now.uncalibrated.get(label, _UNKNOWN)}"

    def save(self, folder: str | Path) -> None:
        """Write the retrievers and the tools as they are now, for `toolbank.load`.

        What an earlier `save` or a pack left in the folder is replaced; who has that open goes on
        with it.

        Raises:
            InputError: it is no path, there is something else in the folder, or it lies in that
                of a run.
            ToolbankError: the folder can't be written to.
        """
        if not isinstance(folder, str | Path) or not str(folder).strip():
            raise InputError(
                f'The folder is {folder!r}; it has to be a path, such as save("finder").'
            )
        check_free(Path(folder))
        write = self._write_fitted
        if self.packed:
            write = partial(self.write_packed, precisions=("as it is",))
        write_version(Path(folder), write, packed=self.packed)

    def pack(
        self,
        folder: Path,
        calibrate: Calibrate | None = None,
        precisions: tuple[Precision, ...] = ("fp32",),
    ) -> str:
        """Write a fitted finder as a packed one, which runs without torch.

        The version that counted before stays beside the new one, for who has it open; older ones
        are deleted. Retrievers with networks are written in the first of `precisions`, and in each further one
        as LABEL-PRECISION. `calibrate` gives what the scores of each mean, as it is written and read
        again: in 8 bits they are others. Why a retriever has no calibration is written, too.

        Returns:
            The version, which follows from the content.

        Raises:
            InputError: the folder holds anything else than a finder, or lies in a run.
            ToolbankError: the folder can't be written to.
        """
        check_free(folder)
        write = partial(self.write_packed, calibrate=calibrate, precisions=precisions)
        return write_version(folder, write, packed=True)

    def write_packed(
        self,
        made: Path,
        calibrate: Calibrate | None = None,
        precisions: tuple[Precision, ...] = ("fp32",),
        find_copy: Callable[[str], Path | None] | None = None,
    ) -> tuple[str, ...]:
        """Write the files of a packed version; the labels of its retrievers. See `pack`.

        `find_copy` is that of `Packing`.
        """
        from tqdm import tqdm

        now, labels = self._state, list[str]()
        reasons: dict[str, str] = {}
        each = [*product(precisions, now.retrievers)]
        packings = {
            precision: Packing(made, precision, find_copy) for precision in precisions
        }
        for precision, label in tqdm(each, "pack", unit="retriever", disable=None):
            packing, retriever = packings[precision], now.retrievers[label]
            first = precision == precisions[0]
            name = label if first else f"{label}-{precision}"
            folder = made / RETRIEVERS / name
            before = len(packing.networks)
            retriever.pack(folder, packing)
            if not first and len(packing.networks) == before:
                shutil.rmtree(folder)
                continue
            labels.append(name)
            if calibrate:
                found = calibrate(load_retriever(folder), retriever) or _NO_REQUESTS
            else:
                reason = now.uncalibrated.get(label, _NO_REQUESTS)
                found = now.calibrations.get(label, reason)
            if isinstance(found, Calibration):
                found.save_state(made / CALIBRATION / name)
            else:
                reasons[name] = found
        write_json(made / UNCALIBRATED, reasons)
        now.tools.write(made)
        if self.requests is not None:
            self.requests.write(made)
        return tuple(labels)

    def _write_fitted(self, made: Path) -> tuple[str, ...]:
        now = self._state
        for label, retriever in now.retrievers.items():
            retriever.save(made / RETRIEVERS / label)
        now.tools.write(made)
        return tuple(now.retrievers)


def _check_requests(queries: Any) -> list[str]:
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InputError("search_many takes a list: search_many([request]).")
    return [check_request(query) for query in queries]


def _check_label(folder: Path, label: str | None, labels: Sequence[str]) -> None:
    if label is not None and label not in labels:
        raise InputError(
            f"{folder}: no retriever {label!r}; there are: {', '.join(labels)}."
        )


def _read_calibration(folder: Path) -> Calibration:
    calibration = Calibration()
    calibration.load_state(folder, {})
    return calibration


def _order(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Numbers between 0 and 1 [n, k] in the order of scores, for want of a calibration.

    Half for a score of 0; 1, which an exact name has, is not reached.
    """
    clipped = np.clip(scores.astype(np.float64), -1e9, 1e9)
    return np.asarray((1 + clipped / (1 + np.abs(clipped))) / 2)


def _lies_in(name: str, folders: Iterable[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)
