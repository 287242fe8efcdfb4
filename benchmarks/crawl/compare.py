"""What a tool says against what an independent reading of its page says, fact by fact."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judged import allowed_types, judge_types
from reading import Field, Reading, Texts, condensed, tight
from schema_fields import flatten

from toolbank.bank.records import Tool

ABSENT = None
Same = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Fact:
    """One fact of a kind; `page` or `tool` is None where that side does not have it."""

    kind: str
    key: str
    page: object
    tool: object
    agrees: bool


def compare(reading: Reading, tool: Tool, nested: bool) -> list[Fact]:
    """All facts that either has; `nested` compares members of parameters at all depths."""
    return [
        *_summary(reading, tool),
        *_sections(reading, tool),
        *_parameters(reading.parameters, tool, nested),
        *_returns(reading, tool),
        *_structure(reading, tool),
        *_syntax(reading, tool),
        *_facts("raises", reading.raises, {r.type: r.type for r in tool.raises}, _any),
        *_texts(
            "raises: description",
            reading.raises,
            {r.type: r.description for r in tool.raises},
        ),
        *_see_also(reading, tool),
        *_versions(reading, tool),
    ]


def _facts(
    kind: str, page: Mapping[Any, Any], tool: Mapping[Any, Any], same: Same
) -> Iterator[Fact]:
    for key in [*page, *(key for key in tool if key not in page)]:
        ours, theirs = page.get(key, ABSENT), tool.get(key, ABSENT)
        both = key in page and key in tool
        yield Fact(kind, str(key), ours, theirs, both and same(ours, theirs))


def _texts(
    kind: str, page: Mapping[Any, Texts], tool: Mapping[Any, str]
) -> Iterator[Fact]:
    """Facts in words; where a page's may fairly be empty, the tool need not have any."""
    said = {key: text for key, text in tool.items() if condensed(text)}
    known = {
        key: t for key, t in page.items() if any(t) and (key in said or "" not in t)
    }
    yield from _facts(kind, known, said, lambda ours, theirs: condensed(theirs) in ours)


def _any(_page: object, _tool: object) -> bool:
    return True


def _equal(page: object, tool: object) -> bool:
    return page == tool and type(page) is type(tool)


def _summary(reading: Reading, tool: Tool) -> Iterator[Fact]:
    yield from _facts("summary", _one(reading.summary), _one(tool.summary), _is_opening)
    described = {
        "description": (reading.prose, f"{tool.summary} {tool.description}"),
    }
    for kind, (page, text) in described.items():
        yield from _texts(kind, {"": page}, {"": text})
    yield from _facts(
        "examples",
        {} if "" in reading.examples and not tool.examples else _one(reading.examples),
        _one(tool.examples),
        lambda page, text: bool(
            page & {tight(text), tight(re.sub("(?m)^ *- ", "", text))}
        ),
    )


def _sections(reading: Reading, tool: Tool) -> Iterator[Fact]:
    """Notes and all other sections; the tool keeps them one after the other in its notes."""
    left = condensed(tool.notes)
    for title, said in reading.sections.items():
        kind = "notes" if title.startswith("Note") else "other sections"
        kept = max((text for text in said if text in left), key=len, default="")
        if kept or not said & {"", "None"}:
            yield Fact(kind, title, said, tool.notes if kept else ABSENT, bool(kept))
        left = left.replace(condensed(title) + kept, "", 1).replace(kept, "", 1)
    if left:
        yield Fact("notes", "", ABSENT, left, False)


def _one(value: Any) -> dict[str, Any]:
    return {"": value} if value else {}


def _is_opening(paragraph: str, summary: str) -> bool:
    """Whether a summary is the first paragraph or its first sentence."""
    whole, part = condensed(paragraph), condensed(summary)
    return whole == part or (
        whole.startswith(part) and re.sub(r"[^\w.!?:]+$", "", summary)[-1:] in ".!?:"
    )


def _parameters(fields: list[Field], tool: Tool, nested: bool) -> Iterator[Fact]:
    """Names, order, types, marks, values and descriptions of parameters."""
    theirs = flatten(tool.parameters, nested)
    page = {field.path.strip("*"): field for field in fields}
    starred = {field.path.strip("*") for field in fields if field.path.startswith("*")}
    names = {path: path for path in page if path not in starred or path in theirs}
    for depth, kind in ((False, "parameter"), (True, "nested parameter")):
        yield from _facts(
            kind,
            {path: path for path in names if _is_deep(path) == depth},
            {path: path for path in theirs if _is_deep(path) == depth},
            _any,
        )
    order = tuple(path for path in page if path in theirs)
    if len(order) > 1:
        actual = tuple(path for path in theirs if path in page)
        yield Fact("order of parameters", "", order, actual, order == actual)
    yield from _fields(
        "parameter", {p: f for p, f in page.items() if p in names}, theirs
    )


def _is_deep(path: str) -> bool:
    return any(mark in path for mark in ".[{")


def _fields(
    kind: str, page: dict[str, Field], tool: dict[str, Field]
) -> Iterator[Fact]:
    """Facts of the fields that both have."""
    both = [path for path in page if path in tool]
    for path in both:
        text, types = page[path].type, tool[path].type
        judged, other = judge_types(text)
        if page[path].path.startswith("*"):  # any number of them
            judged = {"object" if page[path].path.startswith("**") else "array"}
        if judged:
            allowed = judged | allowed_types(text, page[path].default)
            fits = _fits(judged, allowed, other, types.split())
            yield Fact(f"{kind}: type", path, text, types, fits)
        elif text and types:
            yield Fact(f"{kind}: type beyond the words", path, text, types, False)
    for name, get, same in (
        ("required", lambda f: f.required or ABSENT, _equal),
        ("default", _default, _equal),
        (
            "enum",
            lambda f: f.enum or ABSENT,
            lambda a, b: set(map(repr, a)) == set(map(repr, b)),
        ),
    ):
        yield from _facts(
            f"{kind}: {name}",
            {p: get(page[p]) for p in both if get(page[p]) is not ABSENT},
            {p: get(tool[p]) for p in both if get(tool[p]) is not ABSENT},
            same,
        )
    yield from _texts(
        f"{kind}: description",
        {path: page[path].description for path in both},
        {path: min(tool[path].description) for path in both},
    )


def _default(field: Field) -> object:
    """A default value as JSON has it; none where it is none, or not literal."""
    value = field.default
    if value is ... or value is None:
        return ABSENT
    return list(value) if isinstance(value, tuple) else value


def _fits(judged: set[str], allowed: set[str], other: bool, types: list[str]) -> bool:
    """Whether a schema has the types that the words name and none but the allowed ones."""
    found = set(types)
    missing = judged - found
    if "number" in found:
        missing -= {"integer"}
    return not missing and (other or found <= allowed)


def _returns(reading: Reading, tool: Tool) -> Iterator[Fact]:
    page = dict(enumerate(reading.returns))
    theirs = dict(enumerate(tool.returns))
    yield from _facts("returns", page, theirs, lambda a, b: a.path == b.name)
    yield from _facts(
        "returns: type",
        {key: item.type for key, item in page.items() if item.type},
        {key: item.type for key, item in theirs.items() if item.type},
        lambda a, b: condensed(a) == condensed(b),
    )
    yield from _texts(
        "returns: description",
        {key: item.description for key, item in page.items()},
        {key: item.description for key, item in theirs.items()},
    )


def _structure(reading: Reading, tool: Tool) -> Iterator[Fact]:
    schemas = [item.structure for item in tool.returns if item.structure]
    theirs = flatten(schemas[0], nested=True) if schemas else {}
    page = {field.path: field for field in reading.structure}
    yield from _facts("response field", page, theirs, _any)
    yield from _fields("response", page, theirs)


def _syntax(reading: Reading, tool: Tool) -> Iterator[Fact]:
    """The syntax blocks: every path there is in the schema, with the values that it allows."""
    schemas = [item.structure for item in tool.returns if item.structure]
    for kind, block, theirs in (
        ("request syntax", reading.request, flatten(tool.parameters, nested=True)),
        (
            "response syntax",
            reading.response,
            flatten(schemas[0], True) if schemas else {},
        ),
    ):
        known = {path: path for path in theirs if path in block}
        yield from _facts(f"{kind}: name", {path: path for path in block}, known, _any)


def _see_also(reading: Reading, tool: Tool) -> Iterator[Fact]:
    page = {title or text: text for title, text in reading.see_also}
    by_text = {text: title for title, text in page.items()}
    theirs = {
        item.name if item.name in page else by_text.get(item.name, item.name): item.name
        for item in tool.see_also
    }
    yield from _facts("see also", page, theirs, _any)


def _versions(reading: Reading, tool: Tool) -> Iterator[Fact]:
    theirs = {
        (note.change, note.version, note.parameter): note.description
        for note in tool.versions
    }
    yield from _facts("version note", reading.versions, theirs, _any)
    yield from _texts("version note: text", reading.versions, theirs)
    yield from _texts("deprecated", {"": reading.deprecated}, {"": tool.deprecated})
