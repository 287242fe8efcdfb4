"""The tool of a function, class or other object in memory, by its docstring and signature."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import CodeType
from typing import (
    Any,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel, TypeAdapter

from toolbank.bank.records import Tool
from toolbank.sources.documented import Documented, Signature
from toolbank.sources.python.attributes import own_docstring, text_of
from toolbank.sources.python.docstring import read_docstring
from toolbank.sources.python.settings import CLASSES, Kind
from toolbank.sources.python.tools import make_tool
from toolbank.sources.typetext import Parameter

_WARNINGS = {"DeprecationWarning", "FutureWarning", "PendingDeprecationWarning"}


def deprecation_of(value: Any) -> str:
    """Return the message of `warnings.deprecated` (PEP 702), or of a warning of every call."""
    if stated := text_of(value, "__deprecated__"):
        return stated
    try:
        function = inspect.unwrap(value)
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType) or _WARNINGS.isdisjoint(code.co_names):
            return ""
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, ValueError, SyntaxError, IndexError):
        return ""
    for statement in getattr(parsed, "body", ()):
        match statement:
            case ast.Expr(
                ast.Call(args=[ast.Constant(str() as said), ast.Name(id=name), *_])
            ):
                if name in _WARNINGS:
                    return said
    return ""


_MOST_CHARACTERS = 20_000


def read_annotations(value: Any) -> dict[str, dict[str, Any]]:
    """Return JSON Schemas, by name, of parameters that take an enum, a model or a record.

    A schema has its own `$defs`. Parameters without one can't be described in JSON Schema, or only
    in over 20,000 characters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parameters = inspect.signature(value, eval_str=True).parameters
        except Exception:  # an annotation may be any expression
            return {}
        found = {
            name: _schema_of(parameter.annotation)
            for name, parameter in parameters.items()
            if _is_described(parameter.annotation)
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
    return {name: schema for name, schema in found.items() if schema}


def _is_described(annotation: Any) -> bool:
    if inspect.isclass(annotation) and not get_args(annotation):
        is_record = dataclasses.is_dataclass(annotation) or is_typeddict(annotation)
        return is_record or issubclass(annotation, enum.Enum | BaseModel)
    return any(map(_is_described, get_args(annotation)))


def _schema_of(annotation: Any) -> dict[str, Any]:
    try:
        schema = TypeAdapter(annotation).json_schema()
        text = json.dumps(schema, allow_nan=False)
    except Exception:  # classes of any package may raise anything here
        return {}
    return schema if len(text) <= _MOST_CHARACTERS else {}


_MAX_TEXT = 1_000


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CLASS = re.compile(r"<class '(?:builtins\.)?([\w.]+)'>")


def signature_of(value: Any) -> Signature:
    """Return a callable's signature by `inspect`, or an empty one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signature = inspect.signature(value)
            written = _written(signature)
            text = _CLASS.sub(r"\1", _ADDRESS.sub("", str(written)))
    except Exception:  # objects of any package may raise anything here
        return Signature()
    schemas = read_annotations(value)
    parameters = [
        replace(
            _parameter(parameter, signature.parameters[name].default),
            schema=schemas.get(name),
        )
        for name, parameter in written.parameters.items()
        if not name.startswith("_")
        or (parameter.default is parameter.empty and parameter.kind not in _STARS)
    ]
    if parameters and parameters[-1].name.startswith("**"):
        parameters[-1:] = _unpacked(value) or parameters[-1:]
    return Signature(text, tuple(parameters))


def _unpacked(value: Any) -> list[Parameter]:
    """The keywords of a callable with `**kwargs: Unpack[Options]`, a TypedDict."""
    try:
        *_, last = inspect.signature(value, eval_str=True).parameters.values()
        if not str(get_origin(last.annotation)).endswith(".Unpack"):
            return []
        (record,) = get_args(last.annotation)
        hints = get_type_hints(record, include_extras=True)
        return [
            Parameter(
                name,
                classifier=_write(inspect.formatannotation, hint),
                required=get_origin(hint) is Required
                or (
                    name in record.__required_keys__
                    and get_origin(hint) is not NotRequired
                ),
                schema=(_is_described(hint) and _schema_of(hint)) or None,
            )
            for name, hint in hints.items()
        ]
    except Exception:  # an annotation may be any expression
        return []


class _Text(str):
    """The text of a value or an annotation, shown without quotes in a signature."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _written(signature: inspect.Signature) -> inspect.Signature:
    """The signature with texts in place of defaults and annotations."""
    empty = inspect.Signature.empty

    def annotation(value: Any) -> Any:
        if value is empty or isinstance(value, str):
            return value if value is empty else _Text(value)
        return _write(inspect.formatannotation, value)

    parameters = [
        parameter.replace(
            annotation=annotation(parameter.annotation),
            default=parameter.default
            if parameter.default is empty
            else _write(repr, parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    returned = annotation(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


def _write(write: Callable[[Any], str], value: Any) -> _Text:
    """The text of a value, or "<package.Type object at 0x...>" if it fails or is too long."""
    try:
        text = write(value)
    except (Exception, SystemExit):
        text = ""
    return _Text(text if 0 < len(text) <= _MAX_TEXT else object.__repr__(value))


def _parameter(written: inspect.Parameter, default: Any) -> Parameter:
    stars: dict[Any, str] = {written.VAR_POSITIONAL: "*", written.VAR_KEYWORD: "**"}
    has_default = default is not written.empty
    has_annotation = written.annotation is not written.empty
    star = stars.get(written.kind, "")
    return Parameter(
        name=star + written.name,
        classifier=_ADDRESS.sub("", written.annotation) if has_annotation else "",
        default=_json(default) if has_default else None,
        required=not has_default and not star,
    )


def _json(value: Any) -> Any:
    """The value if it is plain JSON that can be encoded, else None; calls no foreign type."""
    if type(value) not in (bool, int, float, str, list, tuple, dict):
        return None
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return json.loads(written.encode())
    except (TypeError, ValueError, RecursionError):
        return None


def describe(name: str, kind: Kind, value: Any, source: str = "") -> Tool:
    """Return the tool of a callable or another object, by its docstring and signature."""
    documented = read_docstring(own_docstring(value, kind))
    signature = Signature()
    if kind in ("function", "method", *CLASSES):
        documented = _with_init(documented, value) if kind in CLASSES else documented
        signature = signature_of(value)
    documented = replace(
        documented, deprecated=documented.deprecated or deprecation_of(value)
    )
    return make_tool(name, kind, documented, signature, source)


def _with_init(documented: Documented, cls: Any) -> Documented:
    """Add the parameters of the docstring of `__init__` if the class documents none."""
    init = cls.__dict__.get("__init__")
    text = getattr(init, "__doc__", None)
    if documented.parameters or not isinstance(text, str):
        return documented
    return replace(documented, parameters=read_docstring(text).parameters)
