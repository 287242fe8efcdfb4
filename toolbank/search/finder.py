"""Find tools in Python: search, add, remove, save."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_tools, write_tools
from toolbank.bank.function_reader import parse_tool
from toolbank.bank.function_writer import (
    FORMS,
    gemini_name,
    wrap_functions,
    write_function,
)
from toolbank.bank.records import Tool, name_functions
from toolbank.retrievers import answering_for
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import check_sound, read_json, unwritable, write_json
from toolbank.system.folders import check_place, foreign_files, hash_files

if TYPE_CHECKING:
    from toolbank.retrievers.base import Asks, Retriever


_SHOWN = 60


def make_tools(given: Iterable[Any]) -> tuple[Tool, ...]:
    """Tools of a list of tools, dicts (as of `parse_tool`) and functions with docstrings.

    The result of MCP's tools/list, {"tools": [...]}, stands for the list in it.

    A function's tool has its name; its parameters are those of the signature, with what the
    docstring says of them.

    Raises:
        InputError: it is no list, or one of them can't be a tool: which, and why.
    """
    if isinstance(given, Mapping) and isinstance(given.get("tools"), list):
        given = given["tools"]
    one = isinstance(given, Tool | Mapping | str | bytes) or callable(given)
    if one or not isinstance(given, Iterable):
        raise InputError(
            f"The tools are {_show(given)}; they have to be a list of tools, dicts or functions, "
            "such as [tool]."
        )
    return tuple(_make_tool(item, number) for number, item in enumerate(given, 1))


def check_asks(given: Any) -> dict[str, list[str]]:
    """Requests for tools by their names, {name: [request, ...]}; None is none.

    Raises:
        InputError: it is something else, or a request is empty or no sound text.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"The asks are {_show(given)}; they have to be requests by the tools' names, "
            "{name: [request, ...]}."
        )
    asks = {}
    for name, texts in given.items():
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise InputError(
                f"The asks for {name} are {_show(texts)}; they have to be a list of requests."
            )
        asks[name] = list(texts)
        for text in asks[name]:
            check_request(text, f"An ask for {name}")
    return asks


def check_request(given: Any, what: str = "The request") -> str:
    """A request, if it is a text that says something.

    Raises:
        InputError: it is none.
    """
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"{what} is {given!r}; it has to be a text.")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has half of a character in it ({given[error.start]!r} at "
            f"{error.start}), which is no text. Decode it anew."
        ) from error
    return given


def _make_tool(item: Any, number: int) -> Tool:
    try:
        tool = _read(item)
        if not tool.name.strip():
            raise ValueError("it has no name")
        if not (tool.summary.strip() or tool.description.strip()):
            raise ValueError(
                f"{tool.name} has no description, by which it could be found"
            )
        check_sound(tool.model_dump())
    except ValueError as error:
        raise InputError(f"Tool {number}, {_show(item)}: {error}.") from error
    return tool


def _read(item: Any) -> Tool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, Mapping):
        return parse_tool(dict(item))
    if callable(item):
        from toolbank.sources.python.package import describe

        name = getattr(item, "__name__", "")
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError("a function without a name; give it as a dict")
        return describe(name, "class" if isinstance(item, type) else "function", item)
    raise ValueError("not a tool, a dict or a function")


def _show(item: Any) -> str:
    if isinstance(item, Tool):
        text = f"Tool {item.name!r}"
    elif isinstance(item, Mapping | str | bytes | int | float | None):
        text = repr(item)
    else:
        text = getattr(item, "__name__", "") or f"of type {type(item).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_MARK, _TOOLS, _RETRIEVER = "finder.json", "tools.parquet", "retriever"
_LAYOUT = {"layout": 1, "kind": "finder"}


def is_saved(folder: Path) -> bool:
    """Whether `write_saved` has made a folder."""
    return _read_mark(folder) is not None


def write_saved(folder: Path, retriever: Retriever, tools: Sequence[Tool]) -> None:
    """Write a retriever and its tools to a folder, whole or not at all.

    What an earlier call left there is replaced. Where the process is killed in that moment, it
    lies beside the folder, as .NAME.earlier-...

    Raises:
        InputError: the folder holds anything that an earlier call has not left as it is, is no
            folder, or lies in that of a run.
        ToolbankError: the folder can't be written to.
    """
    _check_free(folder)
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}."
        ) as beside:
            made = Path(beside, "made")
            retriever.save(made / _RETRIEVER)
            write_tools(made / _TOOLS, tools)
            files = sorted(hash_files(made).items())
            write_json(made / _MARK, {**_LAYOUT, "files": files})
            _check_free(folder)
            _move(made, folder)
    except OSError as error:
        raise ToolbankError(unwritable(folder, error)) from error


def read_saved(folder: Path) -> tuple[Retriever, tuple[Tool, ...]]:
    """Read what `write_saved` wrote.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.retrievers import load_retriever

    retriever = load_retriever(folder / _RETRIEVER)
    tools = read_tools(folder / _TOOLS)
    if retriever.tools != tuple(tool.name for tool in tools):
        raise InputError(
            f"{folder / _TOOLS}: damaged (not the retriever's tools). Save it again."
        )
    return retriever, tools


def _move(made: Path, folder: Path) -> None:
    if not folder.exists():
        made.replace(folder)
        return
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.earlier-"))
    earlier = aside / folder.name
    try:
        folder.replace(earlier)
        made.replace(folder)
    except BaseException:
        if earlier.exists():
            earlier.replace(folder)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _check_free(folder: Path) -> None:
    check_place(folder, "a saved finder")
    if folder.is_symlink():
        raise InputError(f"{folder}: a link. Give the folder's own path.")
    if not folder.exists():
        return
    left = _read_mark(folder) or {}
    names = [
        path.name for path in folder.iterdir() if not (left and path.name == _MARK)
    ]
    first = min(foreign_files(folder, names, left), default=None)
    if first is not None:
        raise InputError(
            f"{folder}: holds {first.relative_to(folder)}, which no earlier save left there as "
            "it is; nothing was written. Move it away, or give another folder."
        )


def _read_mark(folder: Path) -> dict[str, str] | None:
    """The files that a save has left in a folder; None where none has."""
    try:
        content = read_json(folder / _MARK)
        if {key: content[key] for key in _LAYOUT} == _LAYOUT:
            return {str(name): str(sha256) for name, sha256 in content["files"]}
    except (InputError, KeyError, TypeError, ValueError):
        pass
    return None


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
