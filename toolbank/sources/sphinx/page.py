"""One page of a Sphinx reference: the objects that it documents, and what its tables list."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from toolbank.bank import ToolKind
from toolbank.sources.documented import Documented
from toolbank.sources.schema import Parameter
from toolbank.sources.signatures import read_signature
from toolbank.sources.sphinx.body import read_body
from toolbank.sources.sphinx.inventory import resolve
from toolbank.sources.sphinx.text import classes

_KINDS: dict[str, ToolKind] = {
    "function": "function",
    "class": "class",
    "exception": "class",
    "module": "module",
    "method": "method",
}
_SIGNATURE_PARTS = frozenset({"sig-paren", "sig-param", "optional"})


@dataclass(frozen=True)
class PageObject:
    """An object as its page shows it.

    `value` is what stands after "=" behind its name. `documented.parameters` are those of the
    signature in its order, with the words of the field list. `kind` None: a constant.
    """

    kind: ToolKind | None
    signature: str
    value: str
    documented: Documented


class Page:
    """A parsed page; `path` is relative to the site's base address."""

    def __init__(self, html: str, path: str) -> None:
        self._tree = LexborHTMLParser(html)
        self._path = path
        self._headings = {
            node.attributes.get("id"): node
            for node in self._tree.css("dt.sig-object[id]")
        }

    def table_targets(self) -> set[tuple[str, str]]:
        """Page and anchor of all that the first columns of autosummary tables link to."""
        links = self._tree.css("table.autosummary tr > td:first-child a.reference")
        targets = {
            resolve(self._path, link.attributes.get("href") or "") for link in links
        }
        return targets - {("", "")}

    def read(self, anchor: str, role: str) -> PageObject | None:
        """The object with this anchor; None where the page has no such."""
        heading = self._headings.get(anchor)
        if heading is not None:
            return _read_object(heading, role)
        section = self._section(anchor) if role == "module" else None
        if section is None:
            return None
        return PageObject("module", "", "", read_body(section))

    def _section(self, anchor: str) -> LexborNode | None:
        """The section that has the anchor, or an empty span with it, at its head."""
        for node in self._tree.css("section, section > span[id]"):
            if node.attributes.get("id") == anchor:
                return node if node.tag == "section" else node.parent
        return None


def _read_object(heading: LexborNode, role: str) -> PageObject:
    signature, value = _signature(heading)
    body = _body(heading)
    documented = read_body(body) if body is not None else Documented()
    kind: ToolKind | None = _KINDS.get(role)
    if kind is None:
        kind = _data_kind(signature, value)
    parameters = (
        _combined(
            read_signature(signature.partition(" -> ")[0]).parameters,
            documented.parameters,
        )
        if kind not in (None, "object")
        else ()
    )
    return PageObject(
        kind, signature, value, replace(documented, parameters=tuple(parameters))
    )


def _data_kind(signature: str, value: str) -> ToolKind | None:
    """Data that can be called is a function, other instances are objects, the rest constants."""
    if signature or value.startswith("<ufunc"):
        return "function"
    return "object" if re.fullmatch(r"<[\w.]+ object.*>", value) else None


def _signature(heading: LexborNode) -> tuple[str, str]:
    """What stands in parentheses after the name, with what is returned; and the value."""
    signature = returned = value = ""
    is_named = is_closed = False
    for node in heading.iter(include_text=True):
        found = set() if node.tag == "-text" else classes(node)
        if "sig-name" in found:
            is_named = True
        elif "sig-return" in found:
            returned = _words(node).lstrip("\N{RIGHTWARDS ARROW} ")
        elif is_named and "property" in found:
            value = _words(node).removeprefix("=").strip()
        elif is_named and not is_closed:
            if node.tag == "-text" or found & _SIGNATURE_PARTS:
                signature += node.text(deep=True)
            is_closed = "sig-paren" in found and signature.endswith(")")
    signature = " ".join(signature.split())
    return (f"{signature} -> {returned}" if returned else signature), value


def _body(heading: LexborNode) -> LexborNode | None:
    """The `dd` of a `dt`, which other `dt` of the same object may stand before."""
    node = heading.next
    while node is not None and node.tag != "dd":
        node = node.next
    return node


def _combined(
    signature: Iterable[Parameter], documented: Iterable[Parameter]
) -> list[Parameter]:
    """The signature's parameters in its order with the documented words.

    One that is only documented comes last if the signature takes any, or there is none.
    """
    described = {item.name.lstrip("*"): item for item in documented}
    combined: list[Parameter] = []
    for item in signature:
        words = described.pop(item.name.lstrip("*"), None)
        if words is not None:
            item = replace(
                item, classifier=words.classifier, description=words.description
            )
        combined.append(item)
    if not combined or any(item.name.startswith("*") for item in combined):
        combined.extend(described.values())
    return combined


def _words(node: LexborNode) -> str:
    return " ".join(node.text(deep=True).split())
