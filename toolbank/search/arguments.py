"""Check the arguments of the Python API: tools, requests, and requests for tools."""

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
    """Make tools from a list of tools, dicts (see `parse_tool`) and functions with docstrings.

    The result of MCP's tools/list, {"tools": [...]}, works too. The tool of a function has its name
    and the parameters of its signature, described by the docstring.

    Raises:
        InputError: it is not a list, or one of them can't become a tool: which, and why.
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


def check_asks(asks: Any) -> dict[str, list[str]]:
    """Check requests for tools by their names, {name: [request, ...]}; None means none.

    Raises:
        InputError: it is something else, or a request is empty or not text.
    """
    if asks is None:
        return {}
    if not isinstance(asks, Mapping):
        raise InputError(
            f"The asks are {_show(asks)}; they have to be requests by the tools' names, "
            "{name: [request, ...]}."
        )
    for name, texts in asks.items():
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise InputError(
                f"The asks for {name} are {_show(texts)}; they have to be a list of requests."
            )
    return {
        name: [check_request(text, f"An ask for {name}") for text in texts]
        for name, texts in asks.items()
    }


def check_list(values: Any, function: str, what: str) -> list[Any]:
    """Check that an argument of a function is a list.

    Raises:
        InputError: it is not, such as a single string.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{function} takes a list of {what}s: {function}([{what}]).")
    return list(values)


def check_request(text: Any, what: str = "The request") -> str:
    """Check the text of a request.

    Raises:
        InputError: it is not a string, empty, or has half of a surrogate pair in it.
    """
    if not isinstance(text, str):
        raise InputError(f"{what} is {text!r}; it has to be a string.")
    if not text.strip():
        raise InputError(f"{what} is empty ({text!r}). Say what is to be done.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has half of a character in it ({text[error.start]!r} at {error.start}). "
            "Decode it again."
        ) from error
    return text


def check_number(k: Any) -> int:
    """Check how many tools to find.

    Raises:
        InputError: it is not a whole number of at least 1.
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
        from toolbank.sources.python.signature import describe

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
