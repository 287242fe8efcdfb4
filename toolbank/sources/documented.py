"""The content of a docstring or page, and signatures as documentation writes them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolbank.bank.records import (
    RaisedException,
    ReturnValue,
    SeeAlso,
    Tool,
    ToolKind,
    VersionChange,
    VersionNote,
)
from toolbank.sources.typetext import Parameter, literal_or_none, parameters_schema

VERSION_CHANGES: dict[str, VersionChange] = {
    "versionadded": "added",
    "versionchanged": "changed",
    "deprecated": "deprecated",
    "deprecated-removed": "deprecated",
    "versionremoved": "removed",
}
"""Changes by the name of a Sphinx directive, which is also the class of its element."""

_SENTENCE_END = re.compile(r"(?<=[^.\s][^.\s][.!?])\s+(?=[A-Z\"'`(])")
_MAX_SUMMARY = 120


@dataclass(frozen=True)
class Documented:
    """The parts of a docstring or page, as plain text."""

    signature: str = ""
    summary: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: tuple[ReturnValue, ...] = ()
    raises: tuple[RaisedException, ...] = ()
    notes: str = ""
    examples: str = ""
    see_also: tuple[SeeAlso, ...] = ()
    deprecated: str = ""
    versions: tuple[VersionNote, ...] = ()

    def as_tool(
        self,
        name: str,
        kind: ToolKind,
        signature: str,
        parameters: Iterable[Parameter],
        source: str = "",
    ) -> Tool:
        """Return a tool with these descriptions and the given parameters."""
        shown = {"parameters": parameters_schema(parameters), "signature": signature}
        return Tool(name=name, kind=kind, source=source, **vars(self) | shown)


_CLOSE_COLON = re.compile(
    r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*):\s*(?P<type>\S.*)", re.S
)
_NAME = re.compile(r"(?!None\b)\*{0,2}[^\W\d][\w.$@\[\]-]*")


def read_entry(
    header: str, classifier: str = "", description: str = ""
) -> list[Parameter]:
    """Return a parameter for each name of an entry such as "x1, x2=0 : array_like".

    numpydoc takes "copy: bool", without a blank before the colon, for a name.
    """
    if close := _CLOSE_COLON.fullmatch(header.strip()):
        header = close["names"]
        classifier = " : ".join(filter(None, (close["type"], classifier)))
    parameters: list[Parameter] = []
    for one in re.split(r"\s*,\s*", header):
        name, has_default, default = one.strip("`: ").partition("=")
        if _NAME.fullmatch(name := name.strip()):
            parameters.append(
                Parameter(
                    name,
                    classifier,
                    description,
                    default=literal_or_none(default),
                    required=False if has_default else None,
                )
            )
    return parameters


def split_summary(paragraph: str) -> tuple[str, str]:
    """Split a first paragraph into the summary, its first sentence if it is long, and the rest."""
    line = " ".join(paragraph.split())
    if len(line) <= _MAX_SUMMARY:
        return line, ""
    summary, *rest = _SENTENCE_END.split(line, maxsplit=1)
    return summary, "".join(rest)


_MAX_SIGNATURE = 10_000


@dataclass(frozen=True)
class Signature:
    """A signature's text, "(a, /, axis=None)", and its parameters in order."""

    text: str = ""
    parameters: tuple[Parameter, ...] = ()


# Cython writes "int x", "double[:] y not None" and "ndarray[double] z".
_TYPED = re.compile(
    r"(?P<type>[A-Za-z_][\w.]*(?: \w+)*(?:\[[^\]]*\])?)\s+\*?(?!None\b)(?P<name>[^\W\d]\w*)"
    r"(?:\s+(?:not|or)\s+None)?"
)
_C_TYPES = {
    **dict.fromkeys(
        ("long", "size_t", "ssize_t", "Py_ssize_t", "unsigned int", "long long"), "int"
    ),
    "double": "float",
    "bint": "bool",
    "unicode": "str",
    "object": "",
}


def read_signature(line: str) -> Signature:
    """Read a signature such as "f([start,] stop, out=None[, dtype])"; empty for other text."""
    match = re.search(r"\(.*\)", line[:_MAX_SIGNATURE], re.S)
    if not match:
        return Signature()
    parameters: list[Parameter] = []
    names: set[str] = set()
    for text, is_bracketed in _arguments(match[0][1:-1]):
        name, has_default, default = (part.strip() for part in text.partition(_EQUALS))
        if typed := _TYPED.fullmatch(name):
            name, annotation = typed["name"], _C_TYPES.get(typed["type"], typed["type"])
        else:
            name, _, annotation = (part.strip() for part in name.partition(":"))
        if not re.fullmatch(r"\*{0,2}[^\W\d]\w*", name) or name in names:
            continue
        names.add(name)
        parameters.append(
            Parameter(
                name=name,
                classifier=annotation,
                default=literal_or_none(default),
                required=not (has_default or is_bracketed or name.startswith("*")),
            )
        )
    text = " ".join(match[0][1:-1].split())
    return Signature(f"({text})", tuple(parameters))


_SELF = re.compile(
    r"\(\s*(?:[\w.\[\]]+ )?_*(?P<name>self|cls|mcs|klass)(?![\w=])"
    r"(?:[^,()\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*(?:,\s*(?:/\s*,?\s*)?|(?=\)))"
)
"""The first argument of a method, with its annotation and the comma or slash after it."""


def without_self(signature: Signature, *, is_method: bool) -> Signature:
    """Return a signature without the instance or class that a method is called on.

    `self` is no parameter of functions and classes, either: compiled ones are documented with it.
    """
    found = _SELF.match(signature.text)
    if not (signature.parameters and found and (is_method or found["name"] == "self")):
        return signature
    rest = signature.text[found.end() :]
    return Signature(f"({rest}", signature.parameters[1:])


_EQUALS = "\0"
"""Stands for the sign before a default; an annotation may hold others: `Field(ge=1)`."""


def _arguments(text: str) -> list[tuple[str, bool]]:
    """The arguments between commas, and whether each is in brackets that mean "optional".

    Such a bracket opens an argument or precedes a comma; any other is part of a value.
    """
    arguments: list[tuple[str, bool]] = []
    current = ""
    is_bracketed = False
    open_brackets: list[str] = []
    quote = ""
    for position, character in enumerate(text):
        if quote:
            is_escaped = text[position - 1] == "\\"
            quote = "" if character == quote and not is_escaped else quote
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
        elif character == "=" and "(" not in open_brackets:
            character = _EQUALS
        if not current.strip():
            is_bracketed = "optional" in open_brackets
        current += character
    arguments.append((current, is_bracketed))
    return arguments
