"""The body of a documented object: prose, field lists and sections, as numpydoc renders them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from toolbank.bank import Returned, SeeAlso
from toolbank.sources.documented import Documented
from toolbank.sources.opening import split_summary
from toolbank.sources.schema import Parameter
from toolbank.sources.sphinx.text import (
    blocks,
    children,
    classes,
    code,
    is_dropped,
    line,
)

_PARAMETERS = frozenset({"Parameters", "Other Parameters"})
_RETURNS = frozenset({"Returns", "Yields"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


@dataclass
class _Parts:
    """What was read so far. Text belongs to the section that the last rubric opened."""

    section: str = ""
    text: dict[str, list[str]] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    see_also: dict[str, SeeAlso] = field(default_factory=dict)
    deprecated: list[str] = field(default_factory=list)


def read_body(node: LexborNode) -> Documented:
    """Read the `dd` of an object, or the `section` of a module without its sub-sections."""
    parts = _Parts()
    for child in children(node):
        _read_block(child, parts)
    summary, description = _opening(parts.text.get("", []))
    return Documented(
        summary=summary,
        description=description,
        parameters=tuple(parts.parameters),
        returns=tuple(parts.returns),
        notes="\n\n".join(parts.text.get("Notes", [])),
        examples="\n\n".join(
            [*parts.text.get("Examples", []), *parts.text.get("Example", [])]
        ),
        see_also=tuple(parts.see_also.values()),
        deprecated="\n\n".join(parts.deprecated),
    )


def _read_block(node: LexborNode, parts: _Parts) -> None:
    found = classes(node)
    if "rubric" in found:
        parts.section = line(node).rstrip(":")
    elif "field-list" in found:
        _read_fields(node, parts)
    elif "seealso" in found:
        for entry in _see_also(node):
            parts.see_also.setdefault(entry.name, entry)
    elif "deprecated" in found:
        parts.deprecated.append(line(node))
    elif (
        node.tag in _HEADINGS
        or node.tag == "section"
        or "py" in found
        or is_dropped(node)
    ):
        return
    elif text := blocks(node):
        parts.text.setdefault(parts.section, []).append(text)


def _opening(paragraphs: list[str]) -> tuple[str, str]:
    """Summary and description: a long first paragraph gives its first sentence."""
    if not paragraphs:
        return "", ""
    summary, rest = split_summary(paragraphs[0])
    return summary, "\n\n".join(part for part in (rest, *paragraphs[1:]) if part)


def _read_fields(node: LexborNode, parts: _Parts) -> None:
    for title, body in _pairs(node):
        name = line(title).rstrip(":").strip()
        if name in _PARAMETERS:
            for heading, text in _definitions(body):
                parts.parameters.extend(_parameters(heading, text))
        elif name in _RETURNS:
            found = [_returned(heading, text) for heading, text in _definitions(body)]
            parts.returns.extend(found or [Returned(description=line(body))])


def _pairs(node: LexborNode) -> Iterator[tuple[LexborNode, LexborNode]]:
    """Every `dt` of a definition list with the `dd` that follows it."""
    heading: LexborNode | None = None
    for child in children(node):
        if child.tag == "dt":
            heading = child
        elif child.tag == "dd" and heading is not None:
            yield heading, child
            heading = None


def _definitions(body: LexborNode) -> Iterator[tuple[LexborNode, str]]:
    """Entries of the definition lists in a field, with their text as one line."""
    for child in children(body):
        if child.tag == "dl":
            heading: LexborNode | None = None
            for node in children(child):
                if node.tag == "dt":
                    if heading is not None:
                        yield heading, ""
                    heading = node
                elif heading is not None:
                    yield heading, line(node)
                    heading = None
            if heading is not None:
                yield heading, ""


def _heading(node: LexborNode) -> tuple[str, str]:
    """Name and classifier of an entry: "x" and "array_like, optional"."""
    name = "".join(
        part.text(deep=True) for part in children(node) if part.tag == "strong"
    )
    classifier = ", ".join(
        " ".join(part.text(deep=True).split())
        for part in children(node)
        if "classifier" in classes(part)
    )
    if not name and not classifier:
        classifier = line(node)
    return " ".join(name.split()), classifier


def _parameters(heading: LexborNode, description: str) -> list[Parameter]:
    """One entry, such as "x1, x2 : array_like", as a parameter for each of its names."""
    names, classifier = _heading(heading)
    return [
        Parameter(name=name, classifier=classifier, description=description)
        for name in re.split(r"\s*,\s*", names)
        if re.fullmatch(r"\*{0,2}\w+", name) and name != "None"
    ]


def _returned(heading: LexborNode, description: str) -> Returned:
    name, classifier = _heading(heading)
    return Returned(name=name, type=classifier, description=description)


def _see_also(node: LexborNode) -> Iterator[SeeAlso]:
    """Names and one-liners; a name is the linked object's full one where it is linked."""
    for child in children(node):
        if child.tag == "dl":
            for heading, text in _pairs(child):
                for name in _names(heading):
                    yield SeeAlso(name=name, description=line(text))
        elif child.tag == "p" and not is_dropped(child):
            for name in _names(child):
                yield SeeAlso(name=name)


def _names(heading: LexborNode) -> list[str]:
    names: list[str] = []
    for label in heading.css("code"):
        link = label.parent
        title = link.attributes.get("title") if link is not None else None
        names.append(title or code(label))
    return [name for name in names if re.fullmatch(r"[\w.]+", name)]
