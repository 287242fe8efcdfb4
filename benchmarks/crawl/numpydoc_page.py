"""NumPy's and pandas's pages: field lists of numpydoc, rubrics, admonitions."""

import itertools
import re

from bs4 import BeautifulSoup, Tag
from judged import judge_defaults, judge_enum
from markup import (
    classes,
    elements,
    is_version_note,
    plain,
    texts,
    version_notes,
)
from reading import Field, Reading, Texts
from signature import Shown, read_signature

_PARAMETERS = ("Parameters", "Other Parameters")
_RETURNS = ("Returns", "Yields")
_ERROR = re.compile(r"[\w.]*(?:(?:, | or )[\w.]+(?=$|,| or ))*")
_RAISES = ("Raises", "Warns")


def read_object(page: BeautifulSoup, anchor: str) -> Reading | None:
    """What the page says of the object at an anchor; None where there is none."""
    place = page.find(id=anchor)
    if not isinstance(place, Tag):
        return None
    if place.name != "dt":
        return _read_module(place)
    body = next(
        (tag for tag in place.find_next_siblings() if tag.name == "dd"), Tag(name="dd")
    )
    reading = _read_body(body)
    _add_signature(reading, _merged([place, *place.find_next_siblings("dt")]))
    return reading


def _merged(lines: list[Tag]) -> list[Shown]:
    """The parameters of all ways to call it; one that not every way has is optional."""
    ways = [{one.name: one for one in read_signature(line)} for line in lines]
    merged: dict[str, Shown] = {}
    for way in ways:
        for name, one in way.items():
            known = merged.setdefault(name, one)
            known.optional = one.optional or any(name not in other for other in ways)
    return list(merged.values())


def _read_module(place: Tag) -> Reading:
    section = place if place.name == "section" else place.find_parent("section")
    assert isinstance(section, Tag)
    for part in section.find_all("section"):  # its headings read as rubrics
        part.unwrap()
    for heading in section.find_all(["h2", "h3", "h4"]):
        heading.name, heading["class"] = "p", ["rubric"]
    for title in section.find_all(["h1", "span"], recursive=False):
        title.decompose()
    return _read_body(section)


def _read_body(body: Tag) -> Reading:
    reading = Reading()
    parts: dict[str, list[Tag]] = {"": []}
    nested = body.select("dl.py")
    fields: list[Tag] = []
    rubric = ""
    for tag in elements(body):
        if tag in nested or tag.name == "script":
            continue
        if tag.name == "dl" and "field-list" in classes(tag):
            rubric = ""
            fields.append(tag)
        elif tag.name == "p" and "rubric" in classes(tag):
            rubric = plain(tag)
            parts.setdefault(rubric, [])
        elif "seealso" in classes(tag):
            rubric = ""
            reading.see_also += _see_also(tag)
        elif rubric == "" and classes(tag) & {"citation-list", "citation"}:
            parts.setdefault("References", []).append(tag)
        else:
            parts[rubric].append(tag)
    for listing in fields:
        _read_fields(reading, listing)
    prose = parts[""]
    paragraphs = [tag for tag in prose if not is_version_note(tag)]
    first = next((tag for tag in paragraphs if tag.name == "p" and plain(tag)), None)
    reading.summary = plain(first) if first else ""
    reading.prose = texts(prose)
    reading.examples = _examples(parts)
    for title, tags in parts.items():
        if title and not title.startswith("Example"):
            reading.sections[title] = texts(tags)
    gone = [
        next(iter(version_notes(tag, "").values()))
        for tag in elements(body)
        if "deprecated" in classes(tag)
    ]
    if gone:
        reading.deprecated = frozenset(map("".join, itertools.product(*gone)))
    reading.versions |= version_notes(body, "", [*fields, *nested])
    return reading


def _examples(parts: dict[str, list[Tag]]) -> Texts:
    """Sections of that name; without any, sessions in the text may be taken for examples."""
    titled = [
        tag for title in parts if title.startswith("Example") for tag in parts[title]
    ]
    if titled:
        return texts(titled, exact=True)
    blocks = [block for tag in parts[""] for block in tag.select("pre")]
    sessions = [block for block in blocks if block.select(".gp")]
    return texts(sessions, exact=True) | {""}


def _read_fields(reading: Reading, listing: Tag) -> None:
    for title in elements(listing):
        if title.name != "dt":
            continue
        name = plain(title).strip(": ")
        value = title.find_next_sibling("dd")
        assert isinstance(value, Tag)
        if name in _PARAMETERS:
            reading.parameters += _parameters(reading, value)
            continue
        reading.versions |= version_notes(value, "")
        if name in _RETURNS:
            reading.returns += _returned(value)
        elif name in _RAISES:
            for term, text in _items(value):
                # "KeyError", "KeyError: if ...", "KeyError if ...": one name, then words
                said = " ".join(plain(part) for part in term.children)
                head = _ERROR.match(said)[0]  # type: ignore[index]
                rest = Tag(name="p")
                rest.string = said.removeprefix(head)
                reading.raises[head] = texts([rest, *elements(text)])
        else:
            reading.sections[name] = texts([value])


def _items(value: Tag) -> list[tuple[Tag, Tag]]:
    """Terms of the definition list in a field, each with what is said of it."""
    found = []
    for listing in elements(value):
        if listing.name == "dl":
            for term in elements(listing):
                if term.name == "dt":
                    text = term.find_next_sibling("dd")
                    found.append((term, text if text else Tag(name="dd")))
    return found


def _head(term: Tag) -> tuple[str, str]:
    """Name and type of a term: `<strong>name</strong><span class="classifier">type</span>`."""
    strong = term.find("strong")
    kinds = [plain(kind) for kind in term.select("span.classifier")]
    if isinstance(strong, Tag):
        name = plain(strong)
        if not kinds and " : " in name:
            name, _, kind = name.partition(" : ")
            return name, kind
        return name, " : ".join(kinds)
    return "", plain(term)


def _parameters(reading: Reading, value: Tag) -> list[Field]:
    found = []
    for term, text in _items(value):
        names, kind = _head(term)
        if not names:
            names, _, kind = kind.partition(" : ")
        for name in re.split(r"\s*,\s*", names):
            bare = name.strip("* ")
            if bare == "None" or not re.fullmatch(r"[^\W\d]\w*", bare):
                continue  # terms are free text: "Not a function, so takes no parameters"
            found.append(
                Field(
                    path=name.strip(),
                    type=kind,
                    required=not re.search(r"optional|default", kind)
                    and not name.startswith("*"),
                    description=texts(elements(text)),
                    default=judge_defaults(kind),
                    enum=judge_enum(kind),
                )
            )
            reading.versions |= version_notes(text, bare)
    return found


def _returned(value: Tag) -> list[Field]:
    items = _items(value)
    if not items:
        return [Field(path="", description=texts(elements(value)))]
    found = []
    for term, text in items:
        name, kind = _head(term)
        found.append(Field(name, kind, description=texts(elements(text))))
    return found


def _see_also(note: Tag) -> list[tuple[str, str]]:
    """(full name or "", name as written) of each object that the note names."""
    found = []
    for place in note.select("dt") or note.select("p:not(.admonition-title)"):
        if place.select_one(".std-ref, .std-doc"):
            continue  # a chapter, no object
        marks = place.select("code, a.reference:not(:has(code))")
        found += [(_title(mark), plain(mark)) for mark in marks]
        if not marks:
            names = [name for name in re.split(r"[,\s]+", plain(place)) if name]
            found += [("", name) for name in names]
    return found


def _title(mark: Tag) -> str:
    link = mark if mark.name == "a" else mark.find_parent("a")
    title = link.get("title") if isinstance(link, Tag) else None
    return title if isinstance(title, str) and " " not in title else ""


def _add_signature(reading: Reading, shown: list[Shown]) -> None:
    """Fields in the order of the signature, then those that only the text names."""
    written = {item.path.strip("* "): item for item in reading.parameters}
    merged = []
    for one in shown:
        item = written.pop(one.name, None)
        if item is None:
            if any(one.name == done.path.strip("*") for done in merged):
                continue
            item = Field(path=one.stars + one.name, required=True)
        item.path = one.stars + one.name if one.stars else item.path
        item.required = item.required and not one.optional
        if one.default is not ... and (one.default is not None or item.default is ...):
            item.default = one.default  # of None and what the text says, the text
        merged.append(item)
    reading.parameters = [*merged, *written.values()]
