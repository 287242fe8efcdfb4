"""Read the term that an object is documented under: name, signature, C and C++ declarations."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.sources.documented import read_signature
from toolbank.sources.sphinx.pages.text import after, classes, is_section
from toolbank.sources.typetext import Parameter, literal_or_none

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
        yield Parameter(
            name=name,
            classifier=kind,
            default=literal_or_none(default),
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


_NAMES = frozenset({"sig-name", "descname"})
_ARROW = re.compile(r"\s*(?:\N{RIGHTWARDS ARROW}|->)\s*")
_GROUP = re.compile(r"\(\((?P<first>\w+)(?:,\s*(?:\w+|\.\.\.|\u2026))+,?\)")
_MAX_VARIANTS = 20
_MAX_FOLLOWING = 60
_ENDS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "table", "hr"})
_LINKS = frozenset({"headerlink", "viewcode-link"})


GROUP = "sequence"


@dataclass(frozen=True)
class Heading:
    """The content of a term; `value` is the text after "=".

    `signature` has one line per variant; `returned` is the annotation of the first variant.
    """

    name: str = ""
    signature: str = ""
    returned: str = ""
    value: str = ""
    parameters: tuple[Parameter, ...] = ()


def read_heading(term: LexborNode) -> Heading:
    """Read a `dt` with further variants of its name that share the body.

    The parameters of an HTTP route are those of its path.
    """
    if "http" in classes(term):
        return Heading(parameters=tuple(_path_parameters(term)))
    if not classes(term).isdisjoint({"c", "cpp"}):
        return _read_declaration(term)
    first = _read(term)
    to_body = takewhile(lambda node: node.tag != "dd", after(term))
    same_body = (node for node in to_body if node.tag == "dt")
    others = [
        heading
        for heading in map(_read, islice(same_body, _MAX_VARIANTS))
        if heading.name == first.name and heading.signature
    ]
    if not others:
        return first
    lines = dict.fromkeys(item.signature for item in (first, *others))
    return replace(
        first,
        signature="\n".join(line for line in lines if line),
        parameters=_merged([item.parameters for item in (first, *others)]),
    )


def _read_declaration(term: LexborNode) -> Heading:
    """Read a declaration of C or C++, whose name is the last one before the parenthesis.

    Template parameters have names, too. Without a parenthesis there is no signature.
    """
    before = arguments = ""
    parens = 0
    for node in term.iter(include_text=True):
        found = set() if node.tag == "-text" else classes(node)
        text = node.text(deep=node.tag != "-text")
        if "sig-paren" in found:
            parens += 1
        elif parens == 1:
            arguments += text
        elif not parens and node.tag == "br" and "sig-name" not in found:
            before = ""
        elif not parens and found.isdisjoint({"sig-name", "headerlink"}):
            before += text
    if not parens:
        return Heading()
    arguments = " ".join(arguments.split())
    return Heading(
        signature=f"({arguments})",
        returned=" ".join(before.split()).removesuffix("void").strip(),
        parameters=tuple(_parameters(arguments[:_MAX_LENGTH])),
    )


def body_of(term: LexborNode) -> LexborNode | None:
    """Return the `dd` of a `dt`, after further `dt` of the same object."""
    return next((node for node in after(term) if node.tag == "dd"), None)


def following(term: LexborNode) -> list[LexborNode]:
    """Return the elements after an object's `dl`, up to the next object, heading or table.

    Some authors write an object's text below its directive instead of inside of it. They do so for
    all objects between two headings, and never begin there with the text of the first one. A title
    before the next object is its own.
    """
    owner = term.parent
    if owner is None or (owner.parent is not None and owner.parent.tag == "dd"):
        return []
    below, above = _section(after(owner)), _section(_before(owner))
    found = list(takewhile(lambda node: not _is_entry(node), below))
    if any(_is_entry(node) and _has_body(node) for node in (*above, *below)):
        return []
    if len(found) < len(below):
        is_first_text = bool(above) and not _is_entry(above[-1])
        if is_first_text and _is_entry(below[-1]):
            return []
        while found and _is_title(found[-1]):
            found.pop()
    return found


def _section(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    """The elements up to the next heading or table."""
    inner = takewhile(_is_within_section, islice(nodes, _MAX_FOLLOWING))
    return [node for node in inner if node.tag != "-text"]


def _before(node: LexborNode | None) -> Iterator[LexborNode]:
    while node is not None and (node := node.prev) is not None:
        yield node


def _is_within_section(node: LexborNode) -> bool:
    is_end = node.tag in _ENDS or (node.tag != "-text" and "rubric" in classes(node))
    return not (is_end or is_section(node))


def _is_entry(node: LexborNode) -> bool:
    return node.tag == "dl" and node.css_first("dt[id]") is not None


def _has_body(node: LexborNode) -> bool:
    return any(body.text(deep=True).strip() for body in node.css("dd"))


def _is_title(node: LexborNode) -> bool:
    """Whether a paragraph is bold, or ends in a colon."""
    words = node.text(deep=True).strip()
    bold = node.css_first("strong, b")
    is_bold = bold is not None and bold.text(deep=True).strip() == words
    return node.tag == "p" and (is_bold or words.endswith(":"))


def _read(term: LexborNode) -> Heading:
    name = signature = returned = value = ""
    after = quote = ""
    depth = 0
    is_closed = False
    for node in term.iter(include_text=True):
        text = node.text(deep=node.tag != "-text")
        found = set() if node.tag == "-text" else classes(node)
        if not found.isdisjoint(_NAMES):
            name = f"{name} {_folded(text)}".strip()
        elif not found.isdisjoint(_LINKS):
            continue
        elif "sig-return" in found:
            returned = _folded(_ARROW.sub("", text))
        elif "property" in found and "sig-param" not in found:
            words = _folded(text)
            if name and words.startswith("="):
                value = words.removeprefix("=").strip()
            elif name and words.startswith(":"):
                returned = words.removeprefix(":").strip()
        elif name and not is_closed:
            quote = _open_quote(text, quote) if node.tag == "em" else quote
            signature += text.rstrip() if quote and text.strip() == "," else text
            if node.tag not in ("em", "dl"):
                depth += text.count("(") - text.count(")")
                is_closed = not depth and ")" in text
        elif node.tag == "a" and node.css_first(".viewcode-link") is not None:
            continue
        elif is_closed and (after or _ARROW.match(text)):
            after += text
    signature = re.sub(r",?\s+\)$", ")", _folded(signature)) if is_closed else ""
    signature = re.sub(r"\(\s+", "(", signature)
    parameters = tuple(map(_annotated, read_signature(signature).parameters))
    parameters = (*_group(signature), *parameters)
    returned = _unquoted(returned or _folded(_ARROW.sub("", after)))
    if signature and returned:
        signature = f"{signature} -> {returned}"
    return Heading(name, signature, returned, value, parameters)


def _open_quote(text: str, quote: str) -> str:
    """The quote that a value opens but does not close, as Sphinx split it at a comma."""
    if quote:
        return "" if quote in text else quote
    value = text.partition("=")[2].strip()
    is_open = value[:1] in ("'", '"') and value.count(value[0]) == 1
    return value[0] if is_open else ""


def _group(signature: str) -> Iterator[Parameter]:
    """The first parameter of "((a1, a2, ...), axis=0)": the sequence "a"."""
    match = _GROUP.match(signature)
    if match and (name := match["first"].rstrip("0123456789")):
        yield Parameter(name=name, classifier=GROUP, required=True)


def _annotated(parameter: Parameter) -> Parameter:
    """A parameter with its annotation unquoted; "*args" and "**kwargs" have none."""
    if parameter.name.startswith("*"):
        return replace(parameter, classifier="")
    return replace(parameter, classifier=_unquoted(parameter.classifier))


def _unquoted(annotation: str) -> str:
    quoted = re.fullmatch(r"'([^']*)'|\"([^\"]*)\"", annotation)
    return (quoted[1] or quoted[2] or "") if quoted else annotation


def _path_parameters(term: LexborNode) -> Iterator[Parameter]:
    """The parameters of a route such as "/users/(int: user_id)"."""
    kind = ""
    for node in term.iter():
        words = _folded(node.text(deep=True))
        if "sig-param" in classes(node):
            yield Parameter(name=words, classifier=kind, required=True)
            kind = ""
        elif "property" in classes(node):
            kind = words.rstrip(":")


def _merged(variants: list[tuple[Parameter, ...]]) -> tuple[Parameter, ...]:
    """The parameters of all variants; those that every variant requires are required."""
    merged: dict[str, Parameter] = {}
    for parameter in (item for variant in variants for item in variant):
        merged.setdefault(parameter.name, parameter)
    needed = [{item.name for item in variant if item.required} for variant in variants]
    everywhere = set.intersection(*needed)
    return tuple(
        replace(item, required=item.name in everywhere) for item in merged.values()
    )


def _folded(text: str) -> str:
    return " ".join(text.split())
