"""Signatures of callables, and of docstrings that begin with one."""

import inspect
import json
import re
import warnings
from dataclasses import dataclass
from typing import Any

from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.parameters import Parameter

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CLASS = re.compile(r"<class '(?:builtins\.)?([\w.]+)'>")
_MAX_SIGNATURE = 10_000


@dataclass(frozen=True)
class Signature:
    """A signature's text, "(a, /, axis=None)", and its parameters in order."""

    text: str = ""
    parameters: tuple[Parameter, ...] = ()


def signature_of(value: Any, documented: str) -> Signature:
    """The signature of a callable by `inspect`, or else the one that its docstring begins with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signature = _unquoted(inspect.signature(value))
            text = _CLASS.sub(r"\1", _ADDRESS.sub("", str(signature)))
    except Exception:  # objects of any package may raise anything here
        return read_signature(documented)
    parameters = [
        _parameter(parameter)
        for name, parameter in signature.parameters.items()
        if not name.startswith("_")
    ]
    if documented and all(item.name.startswith("*") for item in parameters):
        return read_signature(documented)
    return Signature(text, tuple(parameters))


class _Unquoted(str):
    """A string annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _unquoted(signature: inspect.Signature) -> inspect.Signature:
    """The signature whose string annotations are shown as they were written."""
    parameters = [
        parameter.replace(annotation=_Unquoted(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
    ]
    returned = signature.return_annotation
    if isinstance(returned, str):
        returned = _Unquoted(returned)
    return signature.replace(parameters=parameters, return_annotation=returned)


def read_signature(line: str) -> Signature:
    """Read "f(x, /, out=None[, dtype])", "f([start,] stop)"; text that is none gives an empty one."""
    match = re.search(r"\(.*\)", line[:_MAX_SIGNATURE], re.S)
    if not match:
        return Signature()
    parameters: list[Parameter] = []
    names: set[str] = set()
    for text, is_bracketed in _arguments(match[0][1:-1]):
        name, has_default, default = (part.strip() for part in text.partition("="))
        name, _, annotation = (part.strip() for part in name.partition(":"))
        if not re.fullmatch(r"\*{0,2}[^\W\d]\w*", name) or name in names:
            continue
        names.add(name)
        value = literal(default)
        parameters.append(
            Parameter(
                name=name,
                classifier=annotation,
                default=value if is_literal(value) else None,
                required=not (has_default or is_bracketed or name.startswith("*")),
            )
        )
    text = " ".join(match[0][1:-1].split())
    return Signature(f"({text})", tuple(parameters))


def _arguments(text: str) -> list[tuple[str, bool]]:
    """The arguments between commas, and whether each stands in brackets for "optional".

    Such a bracket opens an argument or stands before a comma; any other is part of a value.
    """
    arguments: list[tuple[str, bool]] = []
    current = ""
    is_bracketed = False
    open_brackets: list[str] = []
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "[" and "(" not in open_brackets:
            is_optional = not current.strip() or re.match(r"\[\s*,", text[position:])
            open_brackets.append("optional" if is_optional else "(")
            if is_optional:
                continue
        elif character in "([{":
            open_brackets.append("(")
        elif character in ")]}" and open_brackets:
            if open_brackets.pop() == "optional":
                continue
        elif character == "," and "(" not in open_brackets:
            arguments.append((current, is_bracketed))
            current = ""
            continue
        if not current.strip():
            is_bracketed = "optional" in open_brackets
        current += character
    arguments.append((current, is_bracketed))
    return arguments


def _parameter(parameter: inspect.Parameter) -> Parameter:
    stars: dict[Any, str] = {
        parameter.VAR_POSITIONAL: "*",
        parameter.VAR_KEYWORD: "**",
    }
    has_default = parameter.default is not parameter.empty
    annotation = ""
    if parameter.annotation is not parameter.empty:
        annotation = inspect.formatannotation(parameter.annotation)
    star = stars.get(parameter.kind, "")
    return Parameter(
        name=star + parameter.name,
        classifier=_ADDRESS.sub("", annotation),
        default=_json(parameter.default) if has_default else None,
        required=not has_default and not star,
    )


def _json(value: Any) -> Any:
    """The value where it is plain JSON; None otherwise. Calls nothing of a foreign type."""
    if type(value) not in (bool, int, float, str, list, tuple, dict):
        return None
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
