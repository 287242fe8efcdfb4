"""boto3's pages: parameters and responses as nested lists, syntax blocks as a second witness."""

import re
from collections.abc import Iterable

from bs4 import BeautifulSoup, Tag
from markup import elements, plain, texts
from reading import Field, Reading, condensed
from signature import read_signature
from syntax import read_syntax

_TYPED = re.compile(r"^\((?P<type>.+?)\)\s*[\u2013-]+")
_NAMED = re.compile(r"^(?P<name>[\w.:*-]+)\s*\((?P<type>.+?)\)\s*[\u2013-]+\s*")
_HEADINGS = ("", "Request Syntax", "Exceptions", "Examples")
_TITLES = ".admonition-title"
_REQUIRED = re.compile(r"^\s*\[REQUIRED\]\s*")


def read_object(page: BeautifulSoup, anchor: str) -> Reading | None:
    """What the page says of the operation at an anchor; None where there is none."""
    place = page.find("dt", id=anchor)
    if not isinstance(place, Tag):
        return None
    body = place.find_next_sibling("dd")
    assert isinstance(body, Tag)
    reading = Reading()
    parts: dict[str, list[Tag]] = {"": []}
    heading = ""
    for tag in _blocks(body):
        if tag.name == "dl" and "field-list" in (tag.get("class") or ()):
            heading = ""
            _read_fields(reading, tag)
        elif tag.name in ("h2", "h3", "h4") or "rubric" in (tag.get("class") or ()):
            heading = plain(tag)
        else:
            parts.setdefault(heading, []).append(tag)
    prose = parts[""]
    link = [
        tag
        for tags in parts.values()
        for tag in tags
        if plain(tag).startswith("See also: AWS API Doc")
    ]
    said = [tag for tag in prose if tag not in link]
    reading.see_also = [("", plain(mark)) for tag in link for mark in tag.select("a")]
    first = next((tag for tag in said if tag.name == "p" and plain(tag)), None)
    reading.summary = plain(first) if first else ""
    reading.prose = texts(prose) | texts(said)
    if first and first is not said[0]:  # a note above may also stand below
        moved = [first, *(tag for tag in prose if tag is not first)]
        reading.prose |= texts(moved) | texts([t for t in moved if t not in link])
    reading.examples = texts(parts.get("Examples", []), exact=True)
    for block in parts.get("Request Syntax", []):
        reading.request |= read_syntax(block.get_text())
    for block in parts.get("Exceptions", []):
        for mark in block.select("li > p > code, li > code"):
            reading.raises[plain(mark)] = frozenset({""})
    for title, tags in parts.items():
        if title not in _HEADINGS:
            reading.sections[title] = texts(tag for tag in tags if tag not in link)
    for fields, block in (
        (reading.parameters, reading.request),
        (reading.structure, reading.response),
    ):
        known = {one.path for one in fields}
        fields += [Field(path) for path in block if path not in known]
        for one in fields:
            one.enum = block.get(one.path, ())
    needed = {one.name for one in read_signature(place) if not one.optional}
    for parameter in reading.parameters:
        parameter.required = parameter.required or parameter.path in needed
    return reading


def _blocks(body: Tag) -> list[Tag]:
    """The body's elements; what a stray quotation wraps is unwrapped."""
    found = []
    for tag in elements(body):
        if tag.name in ("blockquote", "div") and not tag.get("class"):
            found += _blocks(tag)
        else:
            found.append(tag)
    return found


def _read_fields(reading: Reading, listing: Tag) -> None:
    loose: dict[str, Field] = {}
    kind, result = "", None
    for title in elements(listing):
        value = title.find_next_sibling("dd")
        if title.name != "dt" or not isinstance(value, Tag):
            continue
        name = plain(title).strip(": ")
        word, _, rest = name.partition(" ")
        if name == "Parameters":
            reading.parameters += _parameters(value)
        elif word == "type" and rest:
            loose.setdefault(rest, Field(rest)).type = plain(value)
        elif word == "param" and rest:
            item, inner = _described(rest, "", elements(value))
            item.type = loose.setdefault(rest, Field(rest)).type
            reading.parameters += [item, *_deeper(rest, item.type, inner)]
        elif name.casefold() in ("return type", "rtype"):
            kind = plain(value)
        elif name.casefold() == "returns":
            result = _read_returns(reading, value)
        elif name == "Raises":
            for block in value.select("li") or [value]:
                term, _, text = plain(block).partition(" \u2013 ")
                reading.raises[term] = frozenset({condensed(text)})
    if result or kind:
        result = result or Field("")
        is_none = "None" in result.description and not kind
        reading.returns.append(
            Field("", "None")
            if is_none
            else Field("", kind, description=result.description)
        )


def _parameters(value: Tag) -> list[Field]:
    """A list, an item a parameter, or, where there is but one, no list at all."""
    blocks = elements(value)
    lone = blocks and blocks[0].name != "ul"
    groups = [blocks] if lone else [elements(li) for li in elements(blocks[0])]
    found = []
    for group in groups:
        head = _NAMED.match(plain(group[0]))
        if head:
            found += _member(head["name"], head["type"], group)
    return found


def _read_returns(reading: Reading, value: Tag) -> Field:
    """The description of the result; its structure goes to the reading."""
    described, heading = [], ""
    for tag in elements(value):
        if tag.name == "h3":
            heading = plain(tag)
        elif heading == "Response Syntax":
            reading.response |= read_syntax(tag.get_text())
        elif heading == "Response Structure" and _is_structure(tag):
            for item in elements(tag):
                head = _TYPED.match(plain(elements(item)[0]))
                assert head
                reading.structure += _member("", head["type"], elements(item))
        else:
            described.append(tag)
    if reading.structure:  # what is said of the whole is said of the result
        root = reading.structure.pop(0)
        return Field("", description=texts(described) | root.description)
    return Field("", description=texts(described))


def _member(path: str, kind: str, blocks: list[Tag]) -> list[Field]:
    """A field whose first block is its head, and all that is in it."""
    field, inner = _described(path, kind, blocks)
    return [field, *_deeper(path, kind, inner)]


def _described(path: str, kind: str, blocks: list[Tag]) -> tuple[Field, list[Tag]]:
    inner = [tag for tag in blocks if _is_structure(tag)]
    said = [_headless(tag) for tag in blocks if tag not in inner]
    required = any(_REQUIRED.match(text) for text in said)
    kept = "".join(_REQUIRED.sub("", text, count=1) for text in said)
    titles = [plain(title) for tag in blocks for title in tag.select(_TITLES)]
    untitled = kept
    for title in titles:
        untitled = untitled.replace(title, "", 1)
    readings = frozenset({condensed(kept), condensed(untitled)})
    return Field(path, kind, required, readings), inner


def _headless(tag: Tag) -> str:
    head = _head(tag) if tag.name == "p" else None
    return plain(tag)[head.end() :] if head else plain(tag)


def _is_structure(tag: Tag) -> bool:
    """Whether a list tells members, and not something about the field in words."""
    if tag.name != "ul" or not elements(tag):
        return False
    return all(
        (blocks := elements(item)) and blocks[0].name == "p" and _head(blocks[0])
        for item in elements(tag)
    )


def _head(paragraph: Tag) -> re.Match[str] | None:
    marks = elements(paragraph)
    if not marks:
        return None
    text = plain(paragraph)
    if marks[0].name == "em":
        return _TYPED.match(text)
    if marks[0].name == "strong" and len(marks) > 1 and marks[1].name == "em":
        return _NAMED.match(text)
    return None


def _deeper(path: str, kind: str, lists: Iterable[Tag]) -> list[Field]:
    """Members of a dict by name, items of a list as `[]`, keys of a map as `{key}`, values as `{}`."""
    found = []
    for listing in lists:
        for item in elements(listing):
            blocks = elements(item)
            head = _head(blocks[0])
            assert head
            name = head.groupdict().get("name")
            if name:
                inner = f"{path}.{name}" if path else name
                found += _member(inner, head["type"], blocks)
            elif kind == "list":
                found += _member(f"{path}[]", head["type"], blocks)
            else:
                found += _map(path, head["type"], blocks)
    return found


def _map(path: str, kind: str, blocks: list[Tag]) -> list[Field]:
    key, inner = _described(f"{path}{{key}}", kind, blocks)
    found = [key] if any(key.description) else []  # JSON's keys are strings anyway
    for listing in inner:
        for item in elements(listing):
            head = _head(elements(item)[0])
            assert head
            found += _member(f"{path}{{}}", head["type"], elements(item))
    return found
