"""References from one object to others: "See also" as numpydoc or an author writes it."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

from toolbank.bank.records import SeeAlso
from toolbank.sources.sphinx.pages.text import children, code, is_dropped, line

_NAME = re.compile(r"[\w.]+")
_LIST_WORDS = re.compile(r"(?:[\s,;.]|\band\b|\bor\b|\bsee also\b:?|\(\))+", re.I)
_DASH = re.compile(r"\s*[:\u2013\u2014-]\s+")


def read_see_also(node: LexborNode) -> Iterator[SeeAlso]:
    """Names and what is said of them; a name is the linked object's full one where it is linked.

    A paragraph that names no object is not given.
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
    """The links of a paragraph "See also: ..." that holds nothing else; empty where it does."""
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
    """The names in a paragraph, with its words where it says more than names."""
    names = _names(node)
    words = line(node)
    rest = _outside(node, "code")
    description = words if _LIST_WORDS.sub("", rest) else ""
    if len(names) == 1 and (dash := _DASH.match(rest)):
        description = rest[dash.end() :]
    yield from (SeeAlso(name=name, description=description) for name in names)


def _outside(node: LexborNode, tag: str) -> str:
    """A node's words without those of elements of a kind."""
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
