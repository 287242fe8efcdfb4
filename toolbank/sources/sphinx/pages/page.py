"""One page of a Sphinx reference: the objects that it documents, and what its tables list."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from selectolax.lexbor import LexborHTMLParser, LexborNode

from toolbank.bank.records import Returned, ToolKind
from toolbank.sources.documented import Documented
from toolbank.sources.schema.parameters import Parameter
from toolbank.sources.site import ROLES
from toolbank.sources.sphinx.inventory import resolve
from toolbank.sources.sphinx.pages.arguments import combined, sent
from toolbank.sources.sphinx.pages.body import read_body
from toolbank.sources.sphinx.pages.heading import body_of, following, read_heading
from toolbank.sources.sphinx.pages.shape import check_shape
from toolbank.sources.sphinx.pages.text import is_section
from toolbank.sources.sphinx.pages.versions import deprecated_parameters

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
    """An object as its page shows it.

    `signature` has a line for each variant; `value` is what stands after "=" behind its name.
    `documented.parameters` are those of the signature in its order, with the words of the field
    list. `kind` None: a constant.
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
        """Page and anchor of all that the first columns of autosummary tables link to."""
        links = self._tree.css("table.autosummary tr > td:first-child a.reference")
        targets = {
            resolve(self._path, link.attributes.get("href") or "") for link in links
        }
        return targets - {("", "")}

    def read(self, anchor: str, role: str) -> PageObject | None:
        """The object with this anchor; None where the page has no such."""
        term = self._headings.get(anchor)
        if (
            term is None and "#" in anchor
        ):  # a site made one page names both in its links
            anchor = anchor.rpartition("#")[2]
            term = self._headings.get(anchor)
        if term is None:
            section = self._around(anchor)
            if section is None:
                return None
            if section.tag != "dt":
                if role != "module":
                    return None
                return PageObject("module", "", "", read_body(section))
            term = section
        place = (term.mem_id, role)
        if place not in self._objects:
            self._objects[place] = _read_object(term, role)
        return self._objects[place]

    @cached_property
    def _anchors(self) -> dict[str | None, LexborNode]:
        return {node.id: node for node in reversed(self._tree.css("[id]"))}

    def _around(self, anchor: str) -> LexborNode | None:
        """The term or section that the anchor, such as an empty span at its head, is in."""
        node = self._anchors.get(anchor)
        while node is not None and not (node.tag == "dt" or is_section(node)):
            node = node.parent
        return node


def _read_object(term: LexborNode, role: str) -> PageObject:
    heading = read_heading(term)
    body = body_of(term)
    names = [item.name.lstrip("*") for item in heading.parameters]
    documented = Documented()
    if body is not None:
        is_bare = not body.text(deep=True).strip()
        after = following(term) if is_bare else ()
        documented = read_body(body, names, after)
    kind: ToolKind | None = _KINDS.get(role)
    if kind is None:
        kind = _data_kind(heading.signature, heading.value)
    parameters: Iterable[Parameter] = ()
    if kind == "operation":
        parameters = sent(heading.parameters, documented.parameters)
    elif kind not in (None, "object"):
        parameters = combined(heading.parameters, documented.parameters)
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
            returns=_with_type(documented.returns, heading.returned),
        ),
    )


def _data_kind(signature: str, value: str) -> ToolKind | None:
    """Data that can be called is a function, other instances are objects, the rest constants."""
    if signature or value.startswith("<ufunc"):
        return "function"
    return "object" if re.fullmatch(r"<[\w.]+ object.*>", value) else None


def _with_type(returns: tuple[Returned, ...], annotation: str) -> tuple[Returned, ...]:
    """What is returned, with the signature's annotation where nothing else tells the type."""
    if not annotation or annotation == "None":
        return returns
    if not returns:
        return (Returned(type=annotation),)
    if len(returns) == 1 and not returns[0].type:
        return (returns[0].model_copy(update={"type": annotation}),)
    return returns
