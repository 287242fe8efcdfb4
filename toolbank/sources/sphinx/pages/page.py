"""Read the objects of one page of a Sphinx reference, with their arguments."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from selectolax.lexbor import LexborHTMLParser, LexborNode

from toolbank.bank.records import ToolKind
from toolbank.sources.documented import Documented, Signature, without_self
from toolbank.sources.site import ROLES
from toolbank.sources.sphinx.inventory import resolve
from toolbank.sources.sphinx.pages.body import deprecated_parameters, read_body
from toolbank.sources.sphinx.pages.fields import add_type
from toolbank.sources.sphinx.pages.heading import (
    GROUP,
    Heading,
    body_of,
    following,
    read_heading,
)
from toolbank.sources.sphinx.pages.text import is_section
from toolbank.sources.typetext import Parameter, is_optional


def combined(
    signature: Iterable[Parameter], documented: Iterable[Parameter]
) -> list[Parameter]:
    """Return the signature's parameters in order, with types and descriptions.

    A parameter that is only documented is appended if the signature takes any, or there is none.
    It replaces an undocumented `**kwargs`, and is optional unless the signature has nothing else.
    """
    signature = list(signature)
    documented = [item for item in documented if item.name != "self"]
    described = _placed(signature, documented)
    found: list[Parameter] = []
    for item in signature:
        words = described.pop(item.name.lstrip("*"), None)
        found.append(item if words is None else _described(item, words))
    takes_any = [item for item in found if item.name.startswith("*")]
    if not takes_any and found:
        return found
    keywords = [item for item in takes_any if item.name.startswith("**")]
    needed = _needed(documented) if _is_bare(signature) else []
    for item in described.values():
        is_open = item.required is None and bool(keywords) and item not in needed
        found.append(replace(item, required=False) if is_open else item)
    unsaid = [item for item in keywords if not item.description]
    return [item for item in found if not (described and item in unsaid)]


def sent(
    path: Iterable[Parameter], documented: Iterable[Parameter]
) -> Iterator[Parameter]:
    """Yield the parameters of a request: those in its path, which are required, then others."""
    described = {item.name: item for item in documented}
    for item in path:
        words = described.pop(item.name, None)
        yield item if words is None else _described(item, words)
    for item in described.values():
        yield replace(item, required=bool(item.required))


def _described(item: Parameter, words: Parameter) -> Parameter:
    """A parameter of a signature with type and description of the field list."""
    is_open = item.required and is_optional(words.classifier)
    return replace(
        item,
        classifier=words.classifier or item.classifier,
        description=words.description,
        required=False if is_open else item.required,
        schema=words.schema or item.schema,
    )


def _placed(
    signature: Sequence[Parameter], documented: Sequence[Parameter]
) -> dict[str, Parameter]:
    """The documented parameters by the signature's names.

    Unknown names describe the required parameters that are not documented, if these are as many.
    "a1, a2, ..." describes the sequence "a" of the signature.
    """
    described = {item.name.lstrip("*"): item for item in documented}
    names = {item.name.lstrip("*") for item in signature}
    for item in signature:
        if item.classifier == GROUP and item.name not in described:
            pattern = re.compile(re.escape(item.name) + r"(?:\d+|n)")
            members = [name for name in described if pattern.fullmatch(name)]
            found = [described.pop(name) for name in members if name not in names]
            if found:
                described[item.name] = found[0]
    unsaid = [item.name for item in signature if item.required]
    unsaid = [name for name in unsaid if name not in described]
    unknown = [name for name in described if name not in names]
    if any(is_optional(described[name].classifier) for name in unknown):
        return described
    takes_any = any(item.name.startswith("*") for item in signature)
    if unsaid and len(unsaid) == len(unknown) and not takes_any:
        for name, other in zip(unsaid, unknown, strict=True):
            described[name] = described.pop(other)
    return described


def _is_bare(signature: Sequence[Parameter]) -> bool:
    """Whether a signature is "(*args, **kwargs)"."""
    return [item.name[: item.name.count("*")] for item in signature] == ["*", "**"]


def _needed(documented: Sequence[Parameter]) -> list[Parameter]:
    """The first parameters, up to one that is optional or has a default.

    None if unmarked ones follow later: then the author does not mark optional parameters.
    """
    unmarked = [
        item
        for item in documented
        if not item.name.startswith("*") and not is_optional(item.classifier)
    ]
    is_told = all(item.classifier for item in unmarked)
    return unmarked if is_told and list(documented[: len(unmarked)]) == unmarked else []


# The parser's time is quadratic in nested blocks, unclosed formatting, and attributes of a tag.
_NESTING = re.compile(
    r"<(/?)(?:a|article|aside|b|big|blockquote|center|code|details|div|dl|em|fieldset|figure"
    r"|font|footer|form|header|i|main|nav|nobr|ol|s|section|small|strike|strong|table|tt|u|ul)"
    r"(?=[\s>/])(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+",
    re.I,
)
_CROWDED = re.compile(
    r"<[a-z][^\s>/]*+(?:\s++[^\s=<>\"'/]++(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"']*+))?+)"
    r"{1000}",
    re.I,
)
_MAX_DEPTH = 500
_FEW_TAGS = 5_000
_SHORT = 20_000


class ShapeError(Exception):
    """A page takes too long to parse; the message is the reason."""


def check_shape(html: str) -> None:
    """Check that a page can be parsed in time.

    Raises:
        ShapeError: elements are nested 500 deep, or a tag has 1,000 attributes.
    """
    if html.count("<") > _FEW_TAGS and _depth(html) > _MAX_DEPTH:
        raise ShapeError("nested too deeply")
    if len(html) > _SHORT and _CROWDED.search(html):
        raise ShapeError("a tag has too many attributes")


def _depth(html: str) -> int:
    """The depth of nested elements, by their tags alone."""
    first, *commented = html.split("<!--")
    shown = [first, *(part.partition("-->")[2] for part in commented)]
    depth = deepest = 0
    for is_end in _NESTING.findall("".join(shown)):
        depth = max(0, depth - 1) if is_end else depth + 1
        deepest = max(deepest, depth)
    return deepest


_KINDS: dict[str, ToolKind] = {
    "function": "function",
    "class": "class",
    "exception": "class",
    "module": "module",
    "method": "method",
    "classmethod": "method",
    "staticmethod": "method",
    "decorator": "function",
    "decoratormethod": "method",
    "attribute": "property",
    "property": "property",
    "macro": "function",
    **dict.fromkeys(ROLES["http"], "operation"),
}


@dataclass(frozen=True)
class PageObject:
    """An object of a page; its `kind` is None for a constant.

    `signature` has one line per variant; `value` is the text after "=". `documented.parameters`
    are those of the signature, in order, with types and descriptions of the field list.
    """

    kind: ToolKind | None
    signature: str
    value: str
    documented: Documented


class Page:
    """A parsed page; `path` is relative to the site's base address.

    Raises:
        ShapeError: the page could not be parsed in time.
    """

    def __init__(self, html: str, path: str) -> None:
        check_shape(html)
        self._tree = LexborHTMLParser(html)
        self._path = path
        self._headings = {node.id: node for node in self._tree.css("dt[id]")}
        self._objects: dict[tuple[int, str], PageObject] = {}

    def table_targets(self) -> set[tuple[str, str]]:
        """Return page and anchor of the links in first columns of autosummary tables."""
        links = self._tree.css("table.autosummary tr > td:first-child a.reference")
        targets = {
            resolve(self._path, link.attributes.get("href") or "") for link in links
        }
        return targets - {("", "")}

    def read(self, anchor: str, role: str) -> PageObject | None:
        """Return the object with this anchor, or None."""
        # In a single-page site, links have both page and anchor.
        bare = anchor.rpartition("#")[2]
        found = self._headings.get(anchor) or self._headings.get(bare)
        term = found or self._around(bare)
        if term is None or (term.tag != "dt" and role != "module"):
            return None
        if term.tag != "dt":
            return PageObject("module", "", "", read_body(term))
        place = (term.mem_id, role)
        if place not in self._objects:
            self._objects[place] = _read_object(term, role)
        return self._objects[place]

    @cached_property
    def _anchors(self) -> dict[str | None, LexborNode]:
        return {node.id: node for node in reversed(self._tree.css("[id]"))}

    def _around(self, anchor: str) -> LexborNode | None:
        """The term or section that contains an anchor."""
        node = self._anchors.get(anchor)
        while node is not None and not (node.tag == "dt" or is_section(node)):
            node = node.parent
        return node


def _read_object(term: LexborNode, role: str) -> PageObject:
    heading = _without_self(read_heading(term), is_method=role == "classmethod")
    body = body_of(term)
    names = [item.name.lstrip("*") for item in heading.parameters]
    documented = Documented()
    if body is not None:
        is_bare = not body.text(deep=True).strip()
        more = following(term) if is_bare else ()
        documented = read_body(body, names, more)
    kind: ToolKind | None = _KINDS.get(role)
    if kind is None:
        kind = _data_kind(heading.signature, heading.value)
    parameters: Iterable[Parameter] = ()
    if kind == "operation":
        parameters = sent(heading.parameters, documented.parameters)
    elif kind not in (None, "object"):
        parameters = combined(heading.parameters, documented.parameters)
    returned = "" if heading.returned == "None" else heading.returned
    old = deprecated_parameters(documented.versions)
    return PageObject(
        kind,
        heading.signature,
        heading.value,
        replace(
            documented,
            parameters=tuple(
                replace(item, is_deprecated=item.name.lstrip("*") in old)
                for item in parameters
            ),
            returns=add_type(documented.returns, returned),
        ),
    )


def _without_self(heading: Heading, *, is_method: bool) -> Heading:
    texts = heading.signature.splitlines()
    variants = [
        without_self(Signature(text, heading.parameters), is_method=is_method)
        for text in texts
    ]
    if [one.text for one in variants] == texts:
        return heading
    signature = "\n".join(one.text for one in variants)
    return replace(heading, signature=signature, parameters=variants[0].parameters)


def _data_kind(signature: str, value: str) -> ToolKind | None:
    """The kind of data: a function if it is callable, an object, or None for a constant."""
    if signature or value.startswith("<ufunc"):
        return "function"
    return "object" if re.fullmatch(r"<[\w.]+ object.*>", value) else None
