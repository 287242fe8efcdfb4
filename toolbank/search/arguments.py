"""Check what is given in Python: tools, requests, and requests for tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from toolbank.bank.function_reader import parse_tool
from toolbank.bank.records import Tool
from toolbank.system.errors import InputError
from toolbank.system.files import check_sound

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


def check_number(k: Any) -> int:
    """How many tools are to be found.

    Raises:
        InputError: it is no whole number of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise InputError(f"k is {k!r}; it has to be a whole number, at least 1.")
    return int(k)


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
