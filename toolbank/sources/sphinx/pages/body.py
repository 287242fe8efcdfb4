"""Read the body of a documented object: prose, field lists, sections, references."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.bank.records import SeeAlso, VersionChange, VersionNote
from toolbank.sources.documented import VERSION_CHANGES, Documented, split_summary
from toolbank.sources.sphinx.pages.fields import (
    HEADINGS,
    Fields,
    add_type,
    is_field,
    read_field,
    read_field_list,
    read_syntax,
    read_value,
)
from toolbank.sources.sphinx.pages.items import Item, fill_in, read_items
from toolbank.sources.sphinx.pages.text import (
    LISTS,
    after,
    blocks,
    children,
    classes,
    code,
    is_dropped,
    is_members,
    is_section,
    line,
    read_references,
)
from toolbank.sources.typetext import Parameter

_NAME = re.compile(r"[\w.]+")
_LIST_WORDS = re.compile(r"(?:[\s,;.]|\band\b|\bor\b|\bsee also\b:?|\(\))+", re.I)
_DASH = re.compile(r"\s*[:\u2013\u2014-]\s+")


def read_see_also(node: LexborNode) -> Iterator[SeeAlso]:
    """Yield names with descriptions; the name of a linked object is its full one.

    Paragraphs that name no object are skipped.
    """
    for child in children(node):
        if is_dropped(child):
            continue
        if child.tag == "dl":
            yield from _definitions(child)
        elif child.tag in ("ul", "ol"):
            for item in children(child):
                yield from _mentions(item)
        else:
            yield from _mentions(child)


def read_links(node: LexborNode) -> list[SeeAlso]:
    """Return the links of a paragraph "See also: ..." that has only links, else nothing."""
    words = line(node)
    if not words.lower().startswith("see also:"):
        return []
    found: list[SeeAlso] = []
    for link in node.css("a"):
        text = line(link)
        title = link.attributes.get("title") or ""
        href = link.attributes.get("href") or ""
        is_object = bool(_NAME.fullmatch(title)) and link.css_first("code") is not None
        name = title if is_object else text
        address = href if href.startswith(("http:", "https:")) else ""
        found.append(SeeAlso(name=name, description=address))
    rest = _outside(node, "a")[len("see also:") :]
    return [] if _LIST_WORDS.sub("", rest) else found


def _definitions(node: LexborNode) -> Iterator[SeeAlso]:
    names: list[str] = []
    for child in children(node):
        if child.tag == "dt":
            yield from (SeeAlso(name=name) for name in names)
            names = _names(child)
        else:
            description = line(child)
            yield from (SeeAlso(name=name, description=description) for name in names)
            names = []
    yield from (SeeAlso(name=name) for name in names)


def _mentions(node: LexborNode) -> Iterator[SeeAlso]:
    """The names in a paragraph, with its text if that is more than names."""
    names = _names(node)
    words = line(node)
    rest = _outside(node, "code")
    description = words if _LIST_WORDS.sub("", rest) else ""
    if len(names) == 1 and (dash := _DASH.match(rest)):
        description = rest[dash.end() :]
    yield from (SeeAlso(name=name, description=description) for name in names)


def _outside(node: LexborNode, tag: str) -> str:
    """A node's text without that of elements of a tag."""
    texts = (
        "" if child.tag == tag else _outside(child, tag)
        for child in node.iter(include_text=True)
    )
    words = node.text(deep=False) if node.tag == "-text" else "".join(texts)
    return " ".join(words.split()) if node.tag != "-text" else words


def _names(heading: LexborNode) -> list[str]:
    names: list[str] = []
    for label in heading.css("code"):
        link = label.parent
        title = link.attributes.get("title") if link is not None else None
        is_name = title is not None and _NAME.fullmatch(title)
        names.append(title if title and is_name else code(label).removesuffix("()"))
    return [name for name in names if _NAME.fullmatch(name)]


_MARKED = frozenset({"em", "code", "strong", "cite", "tt"})
_OF_A_VALUE = re.compile(
    r"(?:passing|using|if|when|giving|setting|support|the default)\b", re.I
)
_VERSION = re.compile(r"\bversions? (?P<words>[^\s:,]+)|(?P<number>v?\d[\w.+-]*)", re.I)


def read_versions(
    body: LexborNode, owners: Mapping[int, tuple[str, ...]], names: Set[str]
) -> Iterator[VersionNote]:
    """Yield the version notes below an element, without those of documented members.

    `owners` has the parameters that an element (by `mem_id`) describes. A note that begins with one
    of `names` belongs to that parameter.
    """
    for label in body.css(".versionmodified"):
        place = _place(label, body, owners)
        if place is None:
            continue
        box, change, parameters = place
        if parameters == ("",):
            parameters = (parameter_of(box, names),)
        match = _VERSION.search(label.text(deep=True))
        version = (match["words"] or match["number"]) if match else ""
        for parameter in parameters:
            yield VersionNote(
                change=change,
                version=version.rstrip("."),
                description=line(box),
                parameter=parameter,
            )


def deprecated_parameters(notes: Iterable[VersionNote]) -> set[str]:
    """Return the deprecated parameters, without those of which only a value is deprecated."""
    return {
        note.parameter
        for note in notes
        if note.change == "deprecated" and not _OF_A_VALUE.match(note.description)
    }


def parameter_of(box: LexborNode, names: Set[str]) -> str:
    """Return the parameter that a note begins with or consists of, or ""."""
    label = box.css_first(".versionmodified")
    nodes = (
        one
        for one in after(label)
        if one.tag != "-text" or one.text(deep=False).strip()
    )
    node = next(nodes, None)
    if node is None or node.tag not in _MARKED:
        return ""
    name = node.text(deep=True).strip()
    is_alone = line(box).rstrip(".") == name
    return name if name.isidentifier() and (name in names or is_alone) else ""


def _place(
    label: LexborNode, body: LexborNode, owners: Mapping[int, tuple[str, ...]]
) -> tuple[LexborNode, VersionChange, tuple[str, ...]] | None:
    """The note's element, its kind and its parameters ("" for none); None for a member's note."""
    box: LexborNode | None = None
    change: VersionChange | None = None
    parameters: tuple[str, ...] = ()
    node = label.parent
    while node is not None and node.mem_id != body.mem_id:
        if node.tag == "section" or (node.tag == "dl" and is_members(node)):
            return None
        if change is None:
            box = node
            found = classes(node)
            change = next(
                (VERSION_CHANGES[n] for n in VERSION_CHANGES if n in found), None
            )
        parameters = parameters or owners.get(node.mem_id, ())
        node = node.parent
    if box is None or change is None:
        return None
    return box, change, parameters or ("",)


_EXAMPLES = frozenset({"examples", "example", "usage", "example usage"})
_SOFT_TITLES = _EXAMPLES | {"notes", "note", "references", "warnings", "see also"}
_LISTING = 'dt.sig, dt[id], .autosummary, .toctree-wrapper, [id^="module-"]'
_BASES = re.compile(r"Bases: (.+)", re.S)
_MAX_TITLE = 40
_REQUEST = "request syntax"


@dataclass
class _Parts:
    """The parts read so far; text belongs to the section of the last heading."""

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
    node: LexborNode, names: Iterable[str] = (), more: Sequence[LexborNode] = ()
) -> Documented:
    """Read the `dd` of an object, or the `section` of a module with its sections of prose.

    `names` are the parameters of its signature; `more` are further elements that belong to it.
    """
    parts = _Parts()
    is_module = node.tag != "dd"
    for child in [*children(node), *more]:
        is_title = is_module and child.tag in HEADINGS
        is_other = is_module and is_section(child) and child.css_first(_LISTING)
        if not is_title and not is_other:
            _read_block(child, parts)
    fields = parts.fields
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
    known = {item.name.lstrip("*") for item in fields.parameters}.union(names)
    versions = tuple(
        note
        for part in (node, *more)
        for note in read_versions(part, fields.owners, known)
    )
    return Documented(
        summary=summary,
        description=description,
        parameters=tuple(_parameters(parts)),
        returns=add_type(tuple(fields.returns), fields.return_type or fields.type),
        raises=tuple(fields.raises),
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
    """Read prose or code; code before the prose is not the summary."""
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
    """Read a box; one before the prose is not the summary, one of examples belongs to them."""
    title = node.css_first(".admonition-title")
    words = " ".join(title.text(deep=True).split()) if title is not None else ""
    if words.rstrip(":").lower() in _EXAMPLES:
        parts.add("Examples", blocks(node))
    elif not parts.section and "" not in parts.text:
        if text := blocks(node):
            parts.asides.append(text)
    else:
        # After the examples, a last box without code belongs to no section.
        is_last = not _is_followed(node) and node.css_first("pre") is None
        ends_examples = parts.section.lower() in _EXAMPLES and words and is_last
        parts.add(words if ends_examples else parts.section, blocks(node))


def _lone_value(node: LexborNode) -> Item | None:
    """The entry of a list with only the type of a property, "(string) - The name."."""
    items = list(read_items(node))
    is_lone = len(items) == 1 and items[0].type and not items[0].name
    return items[0] if is_lone else None


def _title(node: LexborNode) -> str:
    """The title of a section, if a paragraph is one: bold or "Examples:", with more after it."""
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
    return any(one.tag != "-text" for one in after(node))


def _holds_fields(node: LexborNode) -> bool:
    """Whether an element only wraps parts of a body, such as an indented field list."""
    if not classes(node).isdisjoint({"admonition", "highlight"}):
        return False
    return node.css_first(".field-list") is not None


def _opening(paragraphs: list[str]) -> tuple[str, str]:
    """Summary and description; of a long first paragraph the first sentence is the summary."""
    if not paragraphs:
        return "", ""
    summary, rest = split_summary(paragraphs[0])
    return summary, "\n\n".join(part for part in (rest, *paragraphs[1:]) if part)


def _parameters(parts: _Parts) -> Iterator[Parameter]:
    """The parameters with the values of the request syntax; unmarked ones are optional then."""
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
