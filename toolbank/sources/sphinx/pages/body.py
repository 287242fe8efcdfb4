"""The body of a documented object: prose, field lists and sections."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.bank.records import SeeAlso
from toolbank.sources.documented import Documented, split_summary
from toolbank.sources.schema.parameters import Parameter
from toolbank.sources.sphinx.pages.fields import (
    HEADINGS,
    Fields,
    is_field,
    read_field,
    read_field_list,
    read_value,
)
from toolbank.sources.sphinx.pages.items import Item, read_item
from toolbank.sources.sphinx.pages.references import LISTS, read_references
from toolbank.sources.sphinx.pages.seealso import read_links, read_see_also
from toolbank.sources.sphinx.pages.structure import fill_in
from toolbank.sources.sphinx.pages.syntax import read_syntax
from toolbank.sources.sphinx.pages.text import (
    blocks,
    children,
    classes,
    code,
    is_dropped,
    is_section,
    line,
)
from toolbank.sources.sphinx.pages.versions import parameter_of, read_versions

_EXAMPLES = frozenset({"examples", "example", "usage", "example usage"})
_SOFT_TITLES = _EXAMPLES | {"notes", "note", "references", "warnings", "see also"}
_LISTING = 'dt.sig, dt[id], .autosummary, .toctree-wrapper, [id^="module-"]'
_BASES = re.compile(r"Bases: (.+)", re.S)
_MAX_TITLE = 40
_REQUEST = "request syntax"


@dataclass
class _Parts:
    """What was read so far. Text belongs to the section that the last heading opened."""

    section: str = ""
    text: dict[str, list[str]] = field(default_factory=dict)
    fields: Fields = field(default_factory=Fields)
    see_also: dict[str, SeeAlso] = field(default_factory=dict)
    deprecated: list[LexborNode] = field(default_factory=list)
    asides: list[str] = field(default_factory=list)
    listings: list[str] = field(default_factory=list)
    doctests: list[str] = field(default_factory=list)
    syntax: dict[str, Any] | None = None

    def add(self, section: str, text: str) -> None:
        if text:
            self.text.setdefault(section, []).append(text)

    def add_see_also(self, found: Iterator[SeeAlso] | list[SeeAlso]) -> None:
        for entry in found:
            self.see_also.setdefault(entry.name, entry)


def read_body(
    node: LexborNode, names: Iterable[str] = (), after: Iterable[LexborNode] = ()
) -> Documented:
    """Read the `dd` of an object, or the `section` of a module with its sections of prose.

    `names` are those of the parameters in its signature; `after` are elements that belong to it
    and stand after it.
    """
    after = list(after)
    parts = _Parts()
    is_module = node.tag != "dd"
    for child in [*children(node), *after]:
        is_title = is_module and child.tag in HEADINGS
        is_other = is_module and is_section(child) and child.css_first(_LISTING)
        if not is_title and not is_other:
            _read_block(child, parts)
    prose = parts.text.pop("", [])
    if prose:
        summary, description = _opening([*prose[:1], *parts.asides, *prose[1:]])
    elif any(text not in parts.listings for text in parts.asides):
        summary, description = _opening(parts.asides)
    else:
        summary, description = "", "\n\n".join(parts.asides)
    examples = [
        part
        for title in list(parts.text)
        if title.lower() in _EXAMPLES
        for part in parts.text.pop(title)
    ]
    known = {item.name.lstrip("*") for item in parts.fields.parameters}.union(names)
    versions = tuple(
        note
        for part in (node, *after)
        for note in read_versions(part, parts.fields.owners, known)
    )
    return Documented(
        summary=summary,
        description=description,
        parameters=tuple(_parameters(parts)),
        returns=parts.fields.all_returns(),
        raises=tuple(parts.fields.raises),
        notes=_notes(parts),
        examples="\n\n".join(examples or parts.doctests),
        see_also=tuple(parts.see_also.values()),
        deprecated="\n\n".join(
            line(note) or note.text(deep=True).strip()
            for note in parts.deprecated
            if not parameter_of(note, known)
        ),
        versions=versions,
    )


def _read_block(node: LexborNode, parts: _Parts) -> None:
    found = classes(node)
    tag = node.tag
    if "rubric" in found or tag in HEADINGS:
        parts.section = line(node).rstrip(":")
    elif "field-list" in found:
        read_field_list(node, parts.fields)
    elif "seealso" in found:
        parts.add_see_also(read_see_also(node))
    elif "deprecated" in found:
        parts.deprecated.append(node)
    elif not found.isdisjoint(LISTS):
        parts.add("References", read_references(node))
    elif is_dropped(node):
        return
    elif is_section(node):
        for child in children(node):
            _read_block(child, parts)
    elif parts.section.lower() == _REQUEST and tag in ("div", "pre"):
        parts.syntax = parts.syntax or read_syntax(code(node))
    elif tag in ("dl", "ul") and is_field(parts.section):
        read_field(parts.section, [node], parts.fields)
    elif tag in ("div", "blockquote") and _holds_fields(node):
        for child in children(node):
            _read_block(child, parts)
    elif tag == "p" and (title := _title(node)):
        parts.section = title
    elif tag == "p" and (links := read_links(node)):
        parts.add_see_also(links)
    elif "admonition" in found:
        _read_admonition(node, parts)
    elif tag == "ul" and not parts.text and (item := _lone_value(node)):
        parts.add("", read_value(item, parts.fields))
    elif tag == "p" and (match := _BASES.fullmatch(line(node))):
        parts.fields.others.setdefault("Bases", match[1])
    else:
        _read_text(node, parts)


def _read_text(node: LexborNode, parts: _Parts) -> None:
    """Prose or code; code that comes first does not open the text."""
    text = blocks(node)
    is_code = node.tag == "pre" or any(
        name.startswith("highlight") for name in classes(node)
    )
    if is_code and not parts.section and text:
        if text.startswith(">>>"):
            parts.doctests.append(text)
        if "" not in parts.text:
            parts.asides.append(text)
            parts.listings.append(text)
            return
    parts.add(parts.section, text)


def _read_admonition(node: LexborNode, parts: _Parts) -> None:
    """A box of examples belongs to these; one that comes first does not open the text."""
    title = node.css_first(".admonition-title")
    words = " ".join(title.text(deep=True).split()) if title is not None else ""
    if words.rstrip(":").lower() in _EXAMPLES:
        parts.add("Examples", blocks(node))
    elif not parts.section and "" not in parts.text:
        if text := blocks(node):
            parts.asides.append(text)
    elif parts.section.lower() in _EXAMPLES and words and _is_last_words(node):
        parts.add(words, blocks(node))
    else:
        parts.add(parts.section, blocks(node))


def _is_last_words(node: LexborNode) -> bool:
    """Whether a box without code ends the text: it is of all, and not of the section before it."""
    return not _is_followed(node) and node.css_first("pre") is None


def _lone_value(node: LexborNode) -> Item | None:
    """The entry of a list that only says what a property holds, "(string) - The name."."""
    entries = [child for child in children(node) if child.tag == "li"]
    if len(entries) != 1:
        return None
    item = read_item(entries[0].iter(include_text=True))
    return item if item.type and not item.name else None


def _title(node: LexborNode) -> str:
    """The section that a paragraph opens: a bold title, or "Examples:", with more after it."""
    if len(node.text(deep=True)) > _MAX_TITLE or not _is_followed(node):
        return ""
    words = line(node)
    title = words.rstrip(":").strip()
    if title.lower() not in _SOFT_TITLES:
        return ""
    bold = node.css_first("strong, b")
    is_bold = bold is not None and line(bold).rstrip(":") == title
    is_plain = words.endswith(":") and title.lower() in _EXAMPLES
    return title if is_bold or is_plain else ""


def _is_followed(node: LexborNode) -> bool:
    after = node.next
    while after is not None and after.tag == "-text":
        after = after.next
    return after is not None


def _holds_fields(node: LexborNode) -> bool:
    """Whether an element only wraps parts of a body, such as a field list that is indented."""
    if not classes(node).isdisjoint({"admonition", "highlight"}):
        return False
    return node.css_first(".field-list") is not None


def _opening(paragraphs: list[str]) -> tuple[str, str]:
    """Summary and description: a long first paragraph gives its first sentence."""
    if not paragraphs:
        return "", ""
    summary, rest = split_summary(paragraphs[0])
    return summary, "\n\n".join(part for part in (rest, *paragraphs[1:]) if part)


def _parameters(parts: _Parts) -> Iterator[Parameter]:
    """The parameters with what the syntax shows besides: their values, and that marks are used."""
    by_syntax = (parts.syntax or {}).get("properties", {})
    for item in parts.fields.parameters:
        name = item.name.lstrip("*")
        if item.schema is not None and name in by_syntax:
            fill_in(item.schema, by_syntax[name])
        if by_syntax and item.required is None:
            item = replace(item, required=False)
        yield item


def _notes(parts: _Parts) -> str:
    """The notes, then every other section and field under its title."""
    found = parts.text.pop("Notes", [])
    for title, texts in [*parts.text.items()]:
        found.append("\n\n".join([f"{title}:", *texts]))
    for title, text in parts.fields.others.items():
        is_line = "\n" not in text
        found.append(f"{title}: {text}" if is_line else f"{title}:\n\n{text}")
    return "\n\n".join(found)
