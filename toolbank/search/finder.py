"""Find tools with fitted or packed retrievers; add and remove tools; save and pack."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from toolbank.bank.function_writer import (
    FORMS,
    gemini_name,
    wrap_functions,
    write_function,
)
from toolbank.bank.records import Tool
from toolbank.encoders.config import Precision
from toolbank.retrievers.calibration import Calibration
from toolbank.search.arguments import (
    check_asks,
    check_list,
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
from toolbank.search.folder import FINDER, check_free, write_version
from toolbank.search.state import FinderState
from toolbank.search.storage import (
    NO_CALIBRATION,
    Calibrate,
    read_state,
    write_fitted,
    write_packed,
)
from toolbank.system import deadline
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.retrievers.base import Asks, Retriever

SEARCH_TIME = 30.0
"""Seconds of one search, in which its calls to an endpoint have to end."""
_MAX_NAMED = 20
"""The maximum number of tools that one request can name exactly."""
_ADDED = (
    "tools were added since it was calibrated. To calibrate it again, pack a run that has them: "
    "toolbank pack RUN --out DIR."
)
# The folder has no option in Python.
_SAVED = replace(FINDER, option="")


@dataclass(frozen=True)
class Hit:
    """A tool and its score: see `Finder.search`."""

    tool: Tool
    score: float


@dataclass(frozen=True)
class Answer:
    """The hits for one request, by falling score.

    Scores are probabilities that the tool is needed. If the retriever has no calibration, they only
    rank the hits. Exact names come first, with a score of 1. `fits` says whether the best of all
    hits, whatever `min_score`, reaches the retriever's threshold: if it is False, probably none of
    them serves the request. It is None without a calibration. `pinned` tools are always listed.
    """

    hits: tuple[Hit, ...]
    fits: bool | None
    pinned: tuple[Tool, ...] = ()


class Finder:
    """Fitted retrievers with their tools.

    Threads may share one. A search uses the tools that were there when it began.

    `packed` says whether the retrievers run without torch. `version` is that of its folder, or ""
    if it was not opened from one.
    """

    def __init__(
        self,
        retrievers: Retriever | Mapping[str, Retriever],
        tools: Sequence[Tool],
        requests: RequestIndex | None = None,
        *,
        packed: bool = False,
    ) -> None:
        """Search these tools with a retriever, or with several; the first is the default."""
        if not isinstance(retrievers, Mapping):
            retrievers = {retrievers.name: retrievers}
        if not isinstance(tools, ToolCatalogue):
            tools = ToolCatalogue(tuple(tools))
        self._state = FinderState(retrievers, tools, requests=requests)
        self._changing = Lock()
        self.packed, self.version = packed, ""

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, for a copy or a pickle."""
        return {k: v for k, v in self.__dict__.items() if k != "_changing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._changing = Lock()

    @classmethod
    def open(
        cls, folder: Path, retriever: str | None = None, *, one: bool = False
    ) -> Self:
        """Open the current version of a saved or packed finder, and check every file of it.

        A packed one is read or mapped into memory as a whole, so its version may be deleted
        afterwards. With `one`, only one retriever is read: the first unless another is named.

        Raises:
            InputError: there is no finder, it has another layout or no such retriever, or a file is
                missing or damaged.
        """
        state, version, packed = read_state(folder, retriever, one=one)
        finder = cls(state.retrievers, state.tools, packed=packed)
        finder._state, finder.version = state, version
        return finder

    @property
    def state(self) -> FinderState:
        """The current state, which never changes."""
        return self._state

    @property
    def retrievers(self) -> Mapping[str, Retriever]:
        """The retrievers by their labels; the first is the default."""
        return self._state.retrievers

    @property
    def retriever(self) -> Retriever:
        """The default retriever."""
        return next(iter(self._state.retrievers.values()))

    @property
    def calls_endpoint(self) -> bool:
        """Whether a search by one of its retrievers calls an endpoint."""
        waiting = [*self.retrievers.values()]
        for one in waiting:
            waiting += one.built_on.values()
        return any(one.config.models for one in waiting)

    @property
    def tools(self) -> ToolCatalogue:
        """The current tools: those of the fit, then those added."""
        return self._state.tools

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """The calibrations by the labels of retrievers."""
        return self._state.calibrations

    @property
    def uncalibrated(self) -> Mapping[str, str]:
        """Why retrievers have no calibration, by their labels."""
        return self._state.uncalibrated

    @property
    def pinned(self) -> tuple[Tool, ...]:
        """Tools that are always listed."""
        return self._state.pinned

    @property
    def requests(self) -> RequestIndex | None:
        """The requests of the bank; None if they were not packed."""
        return self._state.requests

    def add_tools(self, tools: Iterable[Any], asks: Asks | None = None) -> None:
        """Add tools to the index without retraining.

        Each is a `Tool`, a function with a docstring, or a dict with a name, a description and
        parameters: as MCP has it, or in the function-calling form of chat-completions APIs. The
        result of MCP's tools/list, {"tools": [...]}, works too. `save` keeps added tools.
        Calibrations no longer hold afterwards, and are dropped.

        `asks` are requests for some of them, {name: [request, ...]}. With these, Tool2Vec, MLC,
        nearest neighbours, BM25 with `requests`, and retrievers built on them find a tool far
        better than by its description.

        Raises:
            InputError: one of them is there already, has no name or no description, or can't be
                read; or the asks are invalid or of another tool. Then none is added.
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
        """Remove tools from the index, by their names.

        Raises:
            InputError: there is no tool of one of these names. Then none is removed.
        """
        gone = check_list(names, "remove_tools", "name")
        for name in gone:
            if not isinstance(name, str):
                raise InputError(f"{name!r} is not the name of a tool. Give tool.name.")
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
        """Always list these tools, and no others.

        Raises:
            InputError: there is no tool of this name.
        """
        with self._changing:
            tools = self._state.tools
            for name in names:
                if name not in tools.places:
                    raise unknown_pin(name)
            pinned = tuple(tools[tools.places[name]] for name in names)
            self._state = replace(self._state, pinned=pinned)

    @deadline.ending_within(SEARCH_TIME)
    def search(self, query: str, k: int = 5, retriever: str | None = None) -> list[Hit]:
        """Find the top k tools for a request; fewer if fewer fit at all.

        Scores are the retriever's own. A packed finder gives the hits of `answer` with a
        `min_score` of 0: k tools if there are so many, scores from 0 to 1, exact names first.

        Raises:
            InputError: as `search_many`.
        """
        return self.search_many([query], k, retriever)[0]

    def search_many(
        self, queries: Sequence[str], k: int = 5, retriever: str | None = None
    ) -> list[list[Hit]]:
        """Find the top k tools for each request; faster than one by one, unless it is packed.

        Raises:
            InputError: k is not a whole number of at least 1, a request is empty or not text, or
                there is no such retriever.
        """
        if self.packed:
            answers = self.answer_many(queries, k, 0, retriever=retriever)
            return [list(answer.hits) for answer in answers]
        return self.rank(queries, k, retriever)

    def rank(
        self, queries: Sequence[str], k: int = 5, retriever: str | None = None
    ) -> list[list[Hit]]:
        """Find the top k tools for each request with the retriever's own scores, packed or not.

        Raises:
            InputError: as `search_many`.
        """
        k, queries = check_number(k), _check_requests(queries)
        now = self._state
        label = now.pick(retriever)
        if not now.tools:
            return [[] for _ in queries]
        indices, scores = now.rank(queries, min(k, len(now.tools)), label)
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
        """Answer each request, in their order; see `answer`."""
        return [
            self.answer(one, k, min_score, wanted, retriever)
            for one in _check_requests(queries)
        ]

    @deadline.ending_within(SEARCH_TIME)
    def answer(
        self,
        query: str,
        k: int = 5,
        min_score: float | None = None,
        wanted: ToolFilter = ALL,
        retriever: str | None = None,
    ) -> Answer:
        """Find the top k tools for a request, with scores from 0 to 1.

        `min_score` is the lowest score of a hit. Unset, all hits of the retriever are given, even
        if none of them fits. With 0 there are always k hits: tools that the retriever does not
        find come last, with a score of 0.

        Raises:
            InputError: k is not a whole number of at least 1, `min_score` is not from 0 to 1, the
                request is empty or not text, no tool passes the filter, or there is no such
                retriever.
        """
        k, query = check_number(k), check_request(query)
        if min_score is not None and not 0 <= min_score <= 1:
            raise InputError(f"min_score is {min_score!r}; it has to be from 0 to 1.")
        now = self._state
        label, allowed = now.pick(retriever), now.tools.select(wanted)
        named = dict.fromkeys(filter(allowed.__getitem__, now.find_named(query)))
        scored = dict.fromkeys(islice(named, _MAX_NAMED), 1.0)
        for place, score in now.find(query, k + len(scored), allowed, label):
            scored.setdefault(place, score)
        scored = dict(islice(scored.items(), k))
        if min_score == 0 and len(scored) < k:
            rest = (int(n) for n in np.flatnonzero(allowed) if n not in scored)
            scored |= dict.fromkeys(islice(rest, k - len(scored)), 0.0)
        fits, best = None, max(scored.values(), default=0.0)
        if (calibration := now.calibrations.get(label)) is not None:
            # A tool that the retriever does not find has 0, whatever the threshold.
            fits = best > 0 and best >= float(calibration.threshold)
        hits = tuple(
            Hit(now.tools[place], score)
            for place, score in scored.items()
            if min_score is None or score >= min_score
        )
        return Answer(hits, fits, now.pinned)

    def describe(self, name: str) -> Tool | None:
        """Return the tool of an exact name, in any case; None if there is none."""
        tools = self._state.tools
        place = tools.places.get(name, tools.calls.get(name.casefold()))
        return None if place is None else tools[place]

    def function(self, tool: Tool, form: str = "openai") -> dict[str, Any]:
        """Write a tool of the finder as a function of an API: openai, anthropic, gemini or mcp.

        Its name is unique, and `describe` accepts it.

        Raises:
            InputError: there is no such form.
        """
        _check_form(form)
        tools = self._state.tools
        return write_function(tool, form, tools.functions[tools.places[tool.name]])[0]

    def as_tools(
        self,
        query: str,
        k: int = 5,
        format: str = "openai",  # noqa: A002 - the usual name of the argument
    ) -> list[dict[str, Any]]:
        """Find the top k tools, as the `tools` of a request to a model.

        `format` is openai, anthropic, gemini or mcp. Names are unique, and `find_function` returns
        the tool of a name that a model calls. A schema that refers to itself is cut if the format
        can't express it: see `toolbank.bank.function_writer`.

        Raises:
            InputError: as `search`, or there is no such format.
        """
        _check_form(format)
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
        """Return the tool of a function name in `as_tools`.

        Raises:
            InputError: there is none.
        """
        tools = self._state.tools
        for place, function in enumerate(tools.functions):
            if name in (function, gemini_name(function)):
                found: Tool = tools[place]
                return found
        raise InputError(f"No tool has the function name {name!r}.")

    @deadline.ending_within(SEARCH_TIME)
    def nearest_requests(self, query: str, n: int = 5) -> list[NearRequest]:
        """Find the bank's requests nearest to a request; none if they were not packed."""
        return self.requests.nearest(query, n) if self.requests else []

    def explain_scores(self, label: str) -> str:
        """Say what the scores of a retriever mean in an `answer`, and why if they only rank."""
        now = self._state
        if label in now.calibrations:
            return "scores are the probability that the tool is needed"
        reason = now.uncalibrated.get(label, NO_CALIBRATION)
        return f"scores only rank the hits, because {reason}"

    def save(self, folder: str | Path) -> None:
        """Write the retrievers and the current tools, for `toolbank.load`.

        An earlier save or pack in the folder is replaced; a process that has it open is not
        affected.

        Raises:
            InputError: it is not a path, the folder holds something else, or is in that of a run.
            ToolbankError: the folder can't be written to.
        """
        if not isinstance(folder, str | Path) or not str(folder).strip():
            raise InputError(
                f'The folder is {folder!r}; it has to be a path, such as save("finder").'
            )
        check_free(Path(folder), _SAVED)
        write = partial(write_fitted, self._state)
        if self.packed:
            write = partial(write_packed, self._state, precisions=("as it is",))
        write_version(Path(folder), write, packed=self.packed)

    def pack(
        self,
        folder: Path,
        calibrate: Calibrate | None = None,
        precisions: tuple[Precision, ...] = ("fp32",),
    ) -> str:
        """Write a packed finder, which runs without torch.

        The previous version stays for processes that have it open; older ones are deleted.
        Retrievers with networks are written in the first of `precisions`, and in each further one
        as LABEL-PRECISION. `calibrate` is called with each retriever as it was packed: in 8 bits
        the scores are different. The reason why a retriever has no calibration is written, too.

        Returns:
            The version, which follows from the content.

        Raises:
            InputError: the folder holds something else, or is in that of a run.
            ToolbankError: the folder can't be written to.
        """
        check_free(folder)
        write = partial(
            write_packed, self._state, calibrate=calibrate, precisions=precisions
        )
        return write_version(folder, write, packed=True)


def unknown_pin(name: str) -> InputError:
    """Make the error for a pinned name that no tool has."""
    return InputError(f"{name}: cannot be pinned; there is no tool of this name.")


def _check_requests(queries: Any) -> list[str]:
    return list(map(check_request, check_list(queries, "search_many", "request")))


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise InputError(f"No format {form!r}; there are: {', '.join(FORMS)}.")
