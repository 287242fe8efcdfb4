"""The type text of a documented parameter, read into JSON Schema."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.typetext import allowing, read_types

_ENCLOSED = re.compile(
    r"\s*\(defaults?(?:\s*[:=]\s*|\s+is\s+|\s+)(?P<value>[^()]+)\)(?=\s*,)", re.I
)
_BRACED = re.compile(r"(?P<kept>\{)\s*default\s+(?=(?P<value>['\"\u2018\u201c]\w+\W))")
_MARKED = re.compile(r"(?P<kept>(?P<value>[^\s{,]+))\s*\(default\)")
_REMARKED = re.compile(
    r"(?P<value>'[^']*'|\"[^\"]*\"|\u2018[^\u2019]*\u2019|\u201c[^\u201d]*\u201d|[-+\w.]+)"
    r"(?:\s*\(.*\)|,.*|\s+(?P=value))",
    re.S,
)
_DEFAULT = re.compile(
    r"[,;(\s]*\bdefaults?\b(?:\s+value)?(?:\s*[:=]\s*|\s+is\s+|\s+to\s+|\s+)(?P<value>.+)",
    re.I | re.S,
)
_OPTIONAL = re.compile(r"[,;(\s]*\boptional\b(?!\[)\)?", re.I)
_KEYWORD = re.compile(r",\s*keyword[- ]only\b", re.I)
_MAX_CLASSIFIER = 400


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool as its documentation and signature tell it.

    `default` is the signature's, as JSON; None where there is none or it is not JSON.
    `required` is None where only the classifier can tell. `schema` is what the documentation
    tells of a nested structure; without it the classifier tells.
    """

    name: str
    classifier: str = ""
    description: str = ""
    default: Any = None
    required: bool | None = None
    schema: dict[str, Any] | None = None
    is_deprecated: bool = False


def schema_of(classifier: str) -> dict[str, Any]:
    """The JSON Schema that a type text such as "int or None, optional" describes.

    What JSON Schema can't say (array_like, DataFrame, callable) stands in `format`, which
    validators ignore. A stated default that is JSON stands in `default`. Any text gives a
    schema; one that is not understood gives only its `format`.
    """
    text = _KEYWORD.sub("", _shortened(classifier))
    words = ""
    for form in (_BRACED, _ENCLOSED, _DEFAULT, _MARKED):
        if stated := form.search(text):
            words = stated["value"]
            kept = stated.groupdict().get("kept", "")
            text = text[: stated.start()] + kept + text[stated.end() :]
            break
    text = re.sub(r",\s*default$", "", _OPTIONAL.sub("", text).strip(" ,;."))
    schema = read_types(text)
    value = _default(_OPTIONAL.sub("", words), schema)
    return (
        {**allowing(schema, value), "default": value} if is_literal(value) else schema
    )


def _default(text: str, schema: dict[str, Any]) -> Any:
    """The value that stands behind the word "default"; remarks may follow it."""
    text = text.strip(" .,;`")
    if text.count(")") > text.count("("):
        text = text.rstrip(")")
    value = literal(text)
    remarked = _REMARKED.fullmatch(text)
    if not is_literal(value) and remarked:
        value = literal(remarked["value"])
    return text if text in schema.get("enum", ()) else value


def is_optional(classifier: str) -> bool:
    """Whether the type text says that the parameter may be left out."""
    text = _shortened(classifier)
    return bool(_OPTIONAL.search(text) or _DEFAULT.search(text))


def parameters_schema(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The object schema of a parameter list: properties in the order given, `required`.

    What schemas refer to stands once in `$defs`; of two of one name that differ the first counts,
    and the parameter of the other has what its classifier says.
    """
    properties: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        name = parameter.name.lstrip("*")
        if not name or name in properties:
            continue
        if parameter.name.startswith("*"):
            kind = "object" if parameter.name.startswith("**") else "array"
            schema: dict[str, Any] = {"type": kind}
            if parameter.classifier:
                schema["format"] = parameter.classifier
        elif parameter.schema is not None and _fits(parameter.schema, shared):
            schema = dict(parameter.schema)
            shared |= schema.pop("$defs", {})
        elif parameter.classifier:
            schema = schema_of(parameter.classifier)
        else:
            schema = {}
        if parameter.default is not None:
            schema = {key: schema[key] for key in schema if key != "default"}
            schema = schema or _type_of(parameter.default)
            schema = {
                **allowing(schema, parameter.default),
                "default": parameter.default,
            }
        if parameter.description:
            schema["description"] = parameter.description
        if parameter.is_deprecated:
            schema["deprecated"] = True
        properties[name] = schema
        needed = parameter.required
        if needed is None:
            needed = not (
                is_optional(parameter.classifier) or parameter.name.startswith("*")
            )
        if needed:
            required.append(name)
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    if shared:
        whole["$defs"] = shared
    return whole


def _fits(schema: dict[str, Any], shared: dict[str, Any]) -> bool:
    own = schema.get("$defs", {})
    return all(shared.get(name, one) == one for name, one in own.items())


def _shortened(classifier: str) -> str:
    """A type text as one line, cut where it can be none: the patterns are slow on long ones."""
    return " ".join(classifier.split())[:_MAX_CLASSIFIER]


def _type_of(value: Any) -> dict[str, Any]:
    """What a default says of a parameter that nothing else is said of."""
    types = {bool: "boolean", int: "number", float: "number", str: "string"}
    return {"type": types[type(value)]} if type(value) in types else {}
