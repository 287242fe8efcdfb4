"""Finding tools, and having them come and go."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolbank.bank.function_writer import (
    FORMS,
    gemini_name,
    wrap_functions,
    write_function,
)
from toolbank.bank.records import Tool, name_functions
from toolbank.finder.given import check_asks, check_request, make_tools
from toolbank.finder.saved import write_saved
from toolbank.retrievers import answering_for
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.retrievers.base import Asks, Retriever


@dataclass(frozen=True)
class Hit:
    """A tool that was found, and how well it fits (the scale is the retriever's own)."""

    tool: Tool
    score: float


@dataclass(frozen=True)
class _State:
    """A retriever, and the tools that its indices stand for; neither is ever changed."""

    retriever: Retriever
    tools: tuple[Tool, ...]

    @cached_property
    def function_names(self) -> dict[str, str]:
        """The name that each tool has as a function, by its own."""
        return name_functions([tool.name for tool in self.tools])


class Finder:
    """A fitted retriever together with what is known of its tools.

    Threads may share one. A search works on the tools that were there when it began; what is
    added or removed meanwhile, one change after the other, is there for the next one.
    """

    def __init__(self, retriever: Retriever, tools: Sequence[Tool]) -> None:
        self._state = _State(retriever, tuple(tools))
        self._changing = Lock()

    def __getstate__(self) -> _State:
        """What a copy or a pickle has of it: all but the lock."""
        return self._state

    def __setstate__(self, state: _State) -> None:
        self._state = state
        self._changing = Lock()

    @property
    def retriever(self) -> Retriever:
        """The retriever as it is now."""
        return self._state.retriever

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are found now, those of the fit before those added."""
        return self._state.tools

    def add_tools(self, tools: Iterable[Any], asks: Asks | None = None) -> None:
        """Have tools found that were not there in the fit; nothing is trained.

        Each is a `Tool`, a function with a docstring, or a dict with a name, a description and
        parameters: plain, as of MCP, or in the function-calling form of chat-completions APIs.
        The result of MCP's tools/list, {"tools": [...]}, is taken for the list in it.
        `save` keeps them.

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
            grown = now.retriever.add_tools(added, asks)
            self._state = _State(grown, now.tools + added)

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
            less = now.retriever.remove_tools(gone)
            left = tuple(tool for tool in now.tools if tool.name not in absent)
            self._state = _State(less, left)

    def search(self, query: str, k: int = 5) -> list[Hit]:
        """Find the k tools that serve a request best, best first; fewer if fewer fit at all.

        Raises:
            InputError: as `search_many` does.
        """
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int = 5) -> list[list[Hit]]:
        """Find the k best tools of every request; faster than one by one.

        Raises:
            InputError: k is no whole number of at least 1, or a request is empty or no text.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise InputError(f"k is {k!r}; it has to be a whole number, at least 1.")
        if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
            raise InputError("search_many takes a list: search_many([request]).")
        asked = [check_request(query) for query in queries]
        now = self._state
        if not now.tools:
            return [[] for _ in asked]
        with answering_for(now.retriever.config, "be searched"):
            indices, scores = now.retriever.search(asked, min(int(k), len(now.tools)))
        return [
            [
                Hit(now.tools[index], float(score))
                for index, score in zip(row, row_scores, strict=True)
                if index >= 0
            ]
            for row, row_scores in zip(indices, scores, strict=True)
        ]

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
        names = self._state.function_names
        functions = []
        for hit in self.search(query, k):
            function, cut = write_function(hit.tool, format, names[hit.tool.name])
            functions.append(function)
            if cut:
                warnings.warn(f"{hit.tool.name} as {format}: {cut}", stacklevel=2)
        return wrap_functions(functions, format)

    def find_function(self, name: str) -> Tool:
        """The tool that goes by a name in `as_tools`.

        Raises:
            InputError: there is none.
        """
        now = self._state
        for tool in now.tools:
            function = now.function_names[tool.name]
            if name in (function, gemini_name(function)):
                return tool
        raise InputError(f"No tool goes by {name!r} as a function.")

    def save(self, folder: str | Path) -> None:
        """Write the retriever and the tools as they are now, for `toolbank.load`.

        What an earlier `save` left in the folder is replaced.

        Raises:
            InputError: it is no path, there is something else in the folder, or it lies in that
                of a run.
            ToolbankError: the folder can't be written to.
        """
        if not isinstance(folder, str | Path) or not str(folder).strip():
            raise InputError(
                f'The folder is {folder!r}; it has to be a path, such as save("finder").'
            )
        now = self._state
        write_saved(Path(folder), now.retriever, now.tools)
