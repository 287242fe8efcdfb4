"""Read field lists ("Parameters", "Returns", "Raises") and request syntax."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.bank.records import RaisedException, ReturnValue
from toolbank.sources.documented import read_entry
from toolbank.sources.sphinx.pages.items import (
    Item,
    fill_in,
    read_item,
    read_items,
    read_structure,
)
from toolbank.sources.sphinx.pages.text import (
    blocks,
    children,
    classes,
    code,
    inline,
    is_block,
    is_dropped,
    line,
    read_references,
    rows,
)
from toolbank.sources.typetext import Parameter

_SYMBOL = re.compile(
    r"""(?P<skipped>\s+|\#[^\n]*)
    |(?P<string>b?'(?:[^'\\\n]|\\.)*'|b?"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?\d[\w.]*)
    |(?P<word>[^\W\d][\w.]*)
    |(?P<mark>.)""",
    re.X | re.S,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PLACEHOLDERS = frozenset({"'string'", '"string"'})
_WORDS: dict[str, dict[str, Any]] = {
    "True": {"type": "boolean"},
    "False": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
}
_MAX_SYNTAX_DEPTH = 40
_MAX_LENGTH = 1_000_000


def read_syntax(text: str) -> dict[str, Any]:
    """Return the schema of a call, "client.f(A='string', B={'C': 'x'|'y'})", or of a value.

    `'x'|'y'` is an enum, a dictionary with the key 'string' a map. Parts that are not understood,
    or are nested more than 40 levels deep, have an empty schema.
    """
    return _SymbolReader(text[:_MAX_LENGTH]).read()


class _SymbolReader:
    """Parses symbols from left to right."""

    def __init__(self, text: str) -> None:
        self._symbols = [
            match[0] for match in _SYMBOL.finditer(text) if match.lastgroup != "skipped"
        ]
        self._position = 0

    def read(self) -> dict[str, Any]:
        opening = next((one for one in self._symbols if one in ("(", "{")), "")
        if opening != "(":
            return self._value(0)
        self._position = self._symbols.index("(") + 1
        return self._object(")", 0)

    def _peek(self) -> str:
        position = self._position
        return self._symbols[position] if position < len(self._symbols) else ""

    def _next(self) -> str:
        symbol = self._peek()
        self._position += 1
        return symbol

    def _value(self, depth: int) -> dict[str, Any]:
        """One value, or the alternatives between "|"."""
        strings: list[str] = []
        schema = self._single(depth, strings)
        while self._peek() == "|":
            self._next()
            self._single(depth, strings)
        if strings and not (len(strings) == 1 and strings[0] in _PLACEHOLDERS):
            values = dict.fromkeys(text[1:-1].replace("\\'", "'") for text in strings)
            return {"type": "string", "enum": list(values)}
        return schema

    def _single(self, depth: int, strings: list[str]) -> dict[str, Any]:
        symbol = self._next()
        if symbol == "{":
            return self._object("}", depth + 1)
        if symbol == "[":
            return self._array(depth + 1)
        if symbol[:1] in ("'", '"'):
            strings.append(symbol)
            return {"type": "string"}
        if symbol[:2] in ("b'", 'b"'):
            return {"type": "string", "format": "bytes"}
        if symbol[:1].isdigit() or symbol[:1] == "-":
            return {"type": "number" if "." in symbol else "integer"}
        if self._peek() == "(":
            self._next()
            if self._peek() == "{":
                inner = self._value(depth)
                self._skip(")")
                return inner
            self._skip(")")
        return dict(_WORDS.get(symbol, {}))

    def _object(self, closing: str, depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if depth > _MAX_SYNTAX_DEPTH:
            self._skip(closing)
            return {}
        while (symbol := self._peek()) and symbol != closing:
            start = self._position
            keys = [self._next()]
            while self._peek() == "|":
                self._next()
                keys.append(self._next())
            if self._peek() in (":", "="):
                self._next()
                value = self._value(depth)
                if len(keys) > 1 or keys[0] in _PLACEHOLDERS:
                    schema["additionalProperties"] = value
                    if len(keys) > 1:
                        names = [key.strip("'\"") for key in keys]
                        schema["propertyNames"] = {"type": "string", "enum": names}
                else:
                    properties[keys[0].strip("'\"")] = value
            elif symbol != ",":
                self._position = start
                self._value(depth)
        self._next()
        if "additionalProperties" in schema and not properties:
            del schema["properties"]
        return schema

    def _array(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if depth > _MAX_SYNTAX_DEPTH:
            self._skip("]")
            return {}
        while (symbol := self._peek()) and symbol != "]":
            if symbol == ",":
                self._next()
                continue
            item = self._value(depth)
            schema.setdefault("items", item)
        self._next()
        return schema

    def _skip(self, closing: str) -> None:
        """Skip to the symbol after a closing bracket."""
        open_brackets = [closing]
        while open_brackets and (symbol := self._next()):
            if symbol in _CLOSING:
                open_brackets.append(_CLOSING[symbol])
            elif symbol == open_brackets[-1]:
                open_brackets.pop()


_PARAMETERS = frozenset(
    {"parameters", "parameter", "arguments", "args", "other parameters", "params"}
    | {"keyword arguments", "keyword args", "keyword parameters", "query parameters"}
    | {"request json object", "request json array of objects", "form parameters"}
    | {"url parameters"}
)
_RETURNS = frozenset(
    {"returns", "return", "return value", "yields", "response json object"}
    | {"response json array of objects"}
)
_RETURN_TYPES = frozenset({"return type", "returns type", "yield type", "rtype"})
_RAISES = frozenset({"raises", "raise", "throws", "exceptions", "warns", "warnings"})
_ENTRY_SECTIONS = (_PARAMETERS | _RETURNS | _RAISES) - {"warnings"}
_UNREAD = re.compile(
    r"(?P<role>param|parameter|arg|argument|key|keyword|kwarg|type|raises?|returns?)\s+"
    r"(?P<words>\S.*)",
    re.I | re.S,
)
_MAX_LEAD = 8  # nodes that a lone parameter's name and type can take
_NAME = re.compile(r"\*{0,2}[^\W\d][\w.$@\[\]-]*")
_TARGET = re.compile(r"\b(?!default)[a-z]\w*:(?=[A-Za-z_])")
_SAID = re.compile(
    r"(?P<type>\w*(?:Error|Warning|Exception)|[A-Z]\w+(?=\s(?:if|when)\s))"
    r":?\s+(?P<text>.+)",
    re.S,
)
_EXCEPTION = re.compile(
    r"(?P<type>[A-Za-z_][\w.]*)(?:\s*[:\u2013\u2014-]\s+(?P<text>.+))?", re.S
)
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LISTS = "div.citation-list, aside.footnote-list"
_NOTHING = frozenset({"None", "none", "void"})


@dataclass
class Fields:
    """The field lists of one object.

    `owners` has the parameters of an element (by `mem_id`); `types` are those of "type" fields.
    """

    parameters: list[Parameter] = field(default_factory=list)
    returns: list[ReturnValue] = field(default_factory=list)
    raises: list[RaisedException] = field(default_factory=list)
    return_type: str = ""
    type: str = ""
    others: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    owners: dict[int, tuple[str, ...]] = field(default_factory=dict)


def add_type(returns: tuple[ReturnValue, ...], kind: str) -> tuple[ReturnValue, ...]:
    """Add the type of the result, if it is known and no entry has it; kind may be ""."""
    if not kind or len(returns) > 1 or (returns and returns[0].type):
        return returns
    lone = returns[0] if returns else ReturnValue()
    return (lone.model_copy(update={"type": kind}),)


def is_field(title: str) -> bool:
    """Whether a section or field with this title has entries, not prose."""
    return title.lower() in _ENTRY_SECTIONS


def read_field_list(node: LexborNode, fields: Fields) -> None:
    """Read a `dl.field-list`, or the `table.field-list` of older Sphinx."""
    found = [
        (line(title).rstrip(":").strip(), list(body.iter(include_text=True)))
        for title, body in _pairs(node)
    ]
    for title, content in found:
        if title.startswith("type "):
            fields.types[title.removeprefix("type ")] = _words(content)
    for title, content in found:
        read_field(title, content, fields)


def read_field(title: str, content: Sequence[LexborNode], fields: Fields) -> None:
    """Read the content of one title."""
    kind = title.lower()
    if kind in _PARAMETERS:
        _read_parameters(content, fields)
    elif kind in _RETURNS:
        fields.returns.extend(_read_returns(content))
    elif kind in _RETURN_TYPES:
        fields.return_type = fields.return_type or _words(content)
    elif kind in _RAISES:
        fields.raises.extend(_read_raises(content))
    elif kind == "type":
        fields.type = fields.type or _words(content)
    elif match := _UNREAD.fullmatch(title):
        _read_unread(match["role"].lower(), match["words"], content, fields)
    elif text := "\n\n".join(_texts(content)):
        fields.others.setdefault(title, text)


def read_value(item: Item, fields: Fields) -> str:
    """Read an entry with the type of a property; return its text."""
    structure = read_structure(item)[0]
    description: str = structure.pop("description", "")
    is_nested = len(structure) > 1 and structure.get("type") in ("array", "object")
    fields.returns.append(
        ReturnValue(type=item.type, structure=structure if is_nested else None)
    )
    return description


def _read_unread(
    role: str, words: str, content: Sequence[LexborNode], fields: Fields
) -> None:
    """Read a field that Sphinx did not convert: "param int x", "return bool"."""
    if role.startswith("raise"):
        fields.raises.append(RaisedException(type=words, description=_words(content)))
    elif role.startswith("return"):
        fields.returns.append(ReturnValue(type=words, description=_words(content)))
    elif role != "type":
        kind, _, name = words.rpartition(" ")
        if _NAME.fullmatch(name):
            nodes = tuple(node for node in content if node.tag != "-text")
            item = Item(name, kind or fields.types.get(name, ""), "", "", nodes)
            fields.parameters.append(_parameter(name, item))
            if nodes and nodes[0].parent is not None:
                fields.owners[nodes[0].parent.mem_id] = (name.lstrip("*"),)


def _pairs(node: LexborNode) -> Iterator[tuple[LexborNode, LexborNode]]:
    """Every title of a field list with its body."""
    if node.tag == "table":
        cells = [cell for row in rows(node) for cell in row]
    else:
        cells = list(children(node))
    heading: LexborNode | None = None
    for cell in cells:
        if cell.tag in ("dt", "th"):
            heading = cell
        elif cell.tag in ("dd", "td") and heading is not None:
            yield heading, cell
            heading = None


def _entries(content: Sequence[LexborNode]) -> Iterator[tuple[Item, LexborNode]]:
    """The entries of a field in any form, with their elements."""
    lone: list[LexborNode] = []
    is_named = False
    for node in content:
        if node.tag == "dl" and not is_dropped(node) and not is_named:
            yield from _definitions(node)
        elif node.tag in ("ul", "ol") and not lone:
            for child in children(node):
                if child.tag == "li":
                    yield read_item(child.iter(include_text=True)), child
        elif lone or not is_block(node) or node.tag == "p":
            lone.append(node)
            if len(lone) <= _MAX_LEAD:
                is_named = bool(read_item(lone).name)
    item = read_item(lone)
    if item.name or item.type or item.label or item.text:
        yield item, lone[0].parent or lone[0]


def _definitions(node: LexborNode) -> Iterator[tuple[Item, LexborNode]]:
    """The entries of a definition list as numpydoc writes it: "name : type" above the text."""
    heading: LexborNode | None = None
    for child in children(node):
        if heading is not None:
            is_described = child.tag == "dd"
            name, kind = _heading(heading)
            text = _described(child) if is_described else ""
            yield Item(name, kind, "", text), child if is_described else heading
            heading = None
        if child.tag == "dt":
            heading = child
    if heading is not None:
        yield Item(*_heading(heading), "", ""), heading


def _described(node: LexborNode) -> str:
    """The text of a definition with its references."""
    found = [line(node), *(read_references(item) for item in node.css(_LISTS))]
    return " ".join(text for text in found if text)


def _heading(node: LexborNode) -> tuple[str, str]:
    """Name and classifier of a definition: "x" and "array_like, optional"."""
    name = " ".join(
        part.text(deep=True) for part in children(node) if part.tag in ("strong", "b")
    )
    classifiers = [
        " ".join(part.text(deep=True).split())
        for part in children(node)
        if "classifier" in classes(part)
    ]
    name = " ".join(name.split()).replace(" ,", ",")
    if classifiers and not name:
        texts = [part for part in node.iter(include_text=True) if part.tag == "-text"]
        name = inline(texts)
    classifier = ", ".join(classifiers)
    if not classifier:
        words = line(node)
        if name and words.startswith(name):
            classifier = words[len(name) :].lstrip(" :,")
        elif not name:
            classifier = words
    return name, classifier


def _read_parameters(content: Sequence[LexborNode], fields: Fields) -> None:
    for item, node in _entries(content):
        found = read_entry(item.name or item.label, item.type)
        fields.owners[node.mem_id] = tuple(one.name.lstrip("*") for one in found)
        for one in found:
            read = _parameter(one.name, replace(item, type=one.classifier))
            is_required = read.required if one.required is None else one.required
            read = replace(read, default=one.default, required=is_required)
            fields.parameters.append(read)


def _parameter(name: str, item: Item) -> Parameter:
    item = replace(item, type=_TARGET.sub("", item.type))
    schema, is_required = read_structure(item)
    description = schema.pop("description", "").lstrip("\u2013\u2014 ")
    return Parameter(
        name=name,
        classifier=item.type,
        description=description,
        required=is_required or None,
        schema=schema if item.type else None,
    )


def _read_returns(content: Sequence[LexborNode]) -> list[ReturnValue]:
    prose: list[LexborNode] = []
    structure: dict[str, Any] = {}
    syntax: dict[str, Any] = {}
    section = ""
    for node in content:
        if node.tag in HEADINGS:
            section = line(node).lower()
        elif section == "response syntax" and node.tag in ("div", "pre"):
            syntax = read_syntax(code(node))
        elif section == "response structure" and node.tag == "ul":
            for item in read_items(node):
                structure = structure or read_structure(item)[0]
        elif section != "response structure":
            prose.append(node)
    if not (structure or syntax):
        return _plain_returns(prose)
    description = _words(prose)
    own = structure.pop("description", "")
    if structure:
        fill_in(structure, syntax)
    return [ReturnValue(description=description or own, structure=structure or syntax)]


def _plain_returns(content: Sequence[LexborNode]) -> list[ReturnValue]:
    items = [item for item, _ in _entries(content)]
    if items and all(item.name or item.type or item.label for item in items):
        return [
            ReturnValue(
                name=item.name,
                type=item.type or item.label,
                description=item.described(),
            )
            for item in items
        ]
    words = _words(content)
    if words in _NOTHING:
        return [ReturnValue(type=words)]
    return [ReturnValue(description=words)] if words else []


def _read_raises(content: Sequence[LexborNode]) -> Iterator[RaisedException]:
    for item, _ in _entries(content):
        kind, text = item.name or item.label, item.described()
        if kind and item.type:
            text = f"{item.type} {text}".strip()
        kind = kind or item.type
        if not kind and (match := _EXCEPTION.fullmatch(text)):
            kind, text = match["type"], match["text"] or ""
        if match := _SAID.fullmatch(kind or text):
            text = f"{match['text']} {text if kind else ''}".strip()
            kind = match["type"]
        kind = kind.strip("~: ")
        if kind or text:
            yield RaisedException(type=kind, description=text)


def _words(content: Iterable[LexborNode]) -> str:
    return " ".join(" ".join(_texts(content)).split())


def _texts(content: Iterable[LexborNode]) -> Iterator[str]:
    for node in content:
        if node.tag == "-text":
            text = node.text(deep=False).strip()
        else:
            text = "" if is_dropped(node) else blocks(node)
        if text:
            yield text
