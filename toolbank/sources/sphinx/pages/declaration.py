"""Declarations of C and C++: "const char *name(int size, double rate = 0.5)"."""

import re
from collections.abc import Iterator
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.parameters import Parameter
from toolbank.sources.sphinx.pages.text import classes

_WHOLE = r"(?:unsigned|signed|short|long|int|u?int\d+_t|s?size_t|Py_ssize_t|ptrdiff_t)"
_TYPES: tuple[tuple[str, str], ...] = (
    (rf"{_WHOLE}(?: {_WHOLE})*", "integer"),
    (r"float|(?:long )?double", "number"),
    (r"_?[Bb]ool", "boolean"),
    (r"char \*|(?:std::)?string(?:_view)?(?: ?&)?", "string"),
)
_FUNCTION = re.compile(r"\(\s*\*\s*(?P<name>\w+)\s*\)\s*\(")
_NAMED = re.compile(
    r"(?:(?P<type>.*[\s*&>.])(?=[^\W\d]))?(?P<name>[^\W\d]\w*)\s*(?P<size>(?:\[[^\]]*\]\s*)*)",
    re.S,
)
_MAX_LENGTH = 10_000
_OPEN = "([{<"
_CLOSED = ")]}>"


def is_declaration(term: LexborNode) -> bool:
    """Whether a `dt` documents something of C or C++."""
    return not classes(term).isdisjoint({"c", "cpp"})


def read_declaration(term: LexborNode) -> tuple[str, str, str, tuple[Parameter, ...]]:
    """The name, signature, type of the result and parameters; no signature without "(".

    The name is the last one before the parenthesis, as a template's parameters have names too.
    """
    before = name = arguments = ""
    parens = 0
    for node in term.iter(include_text=True):
        found = set() if node.tag == "-text" else classes(node)
        text = node.text(deep=node.tag != "-text")
        if "sig-paren" in found:
            parens += 1
        elif parens == 1:
            arguments += text
        elif not parens and "sig-name" in found:
            name = text
        elif not parens and node.tag == "br":
            before = ""
        elif not parens and "headerlink" not in found:
            before += text
    if not parens:
        return name, "", "", ()
    arguments = " ".join(arguments.split())
    result = " ".join(before.split()).removesuffix("void").strip()
    return name, f"({arguments})", result, tuple(_parameters(arguments[:_MAX_LENGTH]))


def _parameters(arguments: str) -> Iterator[Parameter]:
    for argument in _parts(arguments):
        declared, _, default = (part.strip() for part in argument.partition("="))
        pointer = _FUNCTION.search(declared)
        named = _NAMED.fullmatch(declared)
        kind = ""
        if pointer:
            name, kind = pointer["name"], declared
        elif named and not (named["type"] is None and _schema(declared).get("type")):
            name = named["name"]
            kind = f"{named['type'] or ''}{named['size']}".strip()
        else:
            continue
        if name == "void":
            continue
        value = literal(default)
        yield Parameter(
            name=name,
            classifier=kind,
            default=value if is_literal(value) else None,
            required=not default,
            schema=_schema(kind) if kind else None,
        )


def _schema(kind: str) -> dict[str, Any]:
    plain = re.sub(r"\b(?:const|volatile|restrict)\b\s*", "", kind).strip()
    for pattern, name in _TYPES:
        if re.fullmatch(pattern, plain):
            return {"type": name, "format": kind}
    return {"format": kind}


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that no bracket holds."""
    depth = start = 0
    for position, character in enumerate(text):
        if character in _OPEN:
            depth += 1
        elif character in _CLOSED:
            depth -= 1
        elif character == "," and depth <= 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()
