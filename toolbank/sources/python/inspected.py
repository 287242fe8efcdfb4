"""Signatures of callables, by `inspect`."""

import inspect
import json
import re
import warnings
from dataclasses import replace
from typing import Any

from toolbank.sources.python.annotations import read_annotations
from toolbank.sources.python.written import write_annotation, write_value
from toolbank.sources.schema.parameters import Parameter
from toolbank.sources.signatures import Signature, read_signature

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CLASS = re.compile(r"<class '(?:builtins\.)?([\w.]+)'>")


def signature_of(value: Any, documented: str) -> Signature:
    """The signature of a callable by `inspect`, or else the one that its docstring begins with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signature = inspect.signature(value)
            written = _written(signature)
            text = _CLASS.sub(r"\1", _ADDRESS.sub("", str(written)))
    except Exception:  # objects of any package may raise anything here
        return read_signature(documented)
    schemas = read_annotations(value)
    parameters = [
        replace(
            _parameter(parameter, signature.parameters[name].default),
            schema=schemas.get(name),
        )
        for name, parameter in written.parameters.items()
        if not name.startswith("_")
    ]
    if documented and all(item.name.startswith("*") for item in parameters):
        return read_signature(documented)
    return Signature(text, tuple(parameters))


class _Text(str):
    """What stands for a value or an annotation, and is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _written(signature: inspect.Signature) -> inspect.Signature:
    """The signature with the texts of its defaults and annotations in their place."""
    empty = inspect.Signature.empty

    def annotation(value: Any) -> Any:
        return empty if value is empty else _Text(write_annotation(value))

    parameters = [
        parameter.replace(
            annotation=annotation(parameter.annotation),
            default=empty
            if parameter.default is empty
            else _Text(write_value(parameter.default)),
        )
        for parameter in signature.parameters.values()
    ]
    returned = annotation(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


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
    """The value where it is plain JSON that a file holds; else None. No foreign type is called."""
    if type(value) not in (bool, int, float, str, list, tuple, dict):
        return None
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return json.loads(written.encode())
    except (TypeError, ValueError, RecursionError):
        return None
