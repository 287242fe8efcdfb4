"""HTML of a documentation page as plain text."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

_DROPPED_TAGS = frozenset({"table", "figure", "img", "script", "style", "svg"})
_DROPPED_CLASSES = frozenset(
    {
        "headerlink",
        "viewcode-link",
        "footnote-reference",
        "footnote-list",
        "citation-list",
        "brackets",
        "versionadded",
        "versionchanged",
        "deprecated",
        "seealso",
        "admonition-title",
        "math",
        "sig-object",
        "toctree-wrapper",
    }
)
_BLOCKS = frozenset(
    {"p", "div", "ul", "ol", "dl", "li", "dt", "dd", "pre", "blockquote", "section"}
    | {"aside", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_CUT = "\0"  # HTML has no such character
_BEFORE_CUT = re.compile(r"\s*\0")
_CITED = re.compile(r"\[[\w.-]+\]")
_FORMULA = re.compile(r"\\\(|\\\)")


def children(node: LexborNode) -> Iterator[LexborNode]:
    """The elements right below a node."""
    return node.iter(include_text=False)


def classes(node: LexborNode) -> set[str]:
    """The CSS classes of an element."""
    return set((node.attributes.get("class") or "").split())


def line(node: LexborNode) -> str:
    """All of a node's words as one line."""
    return " ".join(" ".join(_paragraphs(node)).split())


def blocks(node: LexborNode) -> str:
    """A node's words: a paragraph is a line, a blank line between two, "- " before a list item.

    Code keeps its lines. Tables, figures, displayed formulas, notes on versions and links of the
    page itself are left out.
    """
    return "\n\n".join(_paragraphs(node))


def code(node: LexborNode) -> str:
    """The text of a block of code, with its line breaks."""
    return node.text(deep=True).strip("\n").rstrip()


def is_dropped(node: LexborNode) -> bool:
    """Whether an element says nothing in plain text."""
    if node.tag in _DROPPED_TAGS:
        return True
    found = classes(node) & _DROPPED_CLASSES
    return bool(found) and not (found == {"math"} and node.tag == "span")


def _paragraphs(node: LexborNode) -> list[str]:
    """Paragraphs of a block in order; runs of inline content make one each."""
    if node.tag == "pre":
        return [code(node)]
    if node.tag in ("ul", "ol"):
        items = [line(item) for item in children(node) if item.tag == "li"]
        listed = "\n".join(f"- {item}" for item in items if item)
        return [listed] if listed else []
    if node.tag == "dl":
        return _definitions(node)
    paragraphs: list[str] = []
    run: list[str] = []
    for child in node.iter(include_text=True):
        if child.tag in _BLOCKS and not is_dropped(child):
            paragraphs.extend(_folded(run))
            run = []
            paragraphs.extend(_paragraphs(child))
        else:
            run.append(_inline(child))
    return [*paragraphs, *_folded(run)]


def _definitions(node: LexborNode) -> list[str]:
    found: list[str] = []
    for child in children(node):
        if is_dropped(child):
            continue
        words = line(child)
        if child.tag == "dd" and found and words:
            found[-1] = f"{found[-1].rstrip(':')}: {words}"
        elif words:
            found.append(words)
    return ["\n".join(found)] if found else []


def _inline(node: LexborNode) -> str:
    if node.tag == "-text":
        return node.text(deep=False)
    if is_dropped(node):
        return ""
    if node.tag == "br":
        return " "
    if _is_citation(node):
        return _CUT
    if "classifier" in classes(node):
        return f" ({node.text(deep=True).strip()})"
    if "math" in classes(node):
        return _FORMULA.sub("", node.text(deep=True))
    return "".join(_inline(child) for child in node.iter(include_text=True))


def _is_citation(node: LexborNode) -> bool:
    """Whether a node is a link such as "[1]" to a reference further down the page."""
    target = node.attributes.get("href") or "" if node.tag == "a" else ""
    return target.startswith("#") and bool(
        _CITED.fullmatch(node.text(deep=True).strip())
    )


def _folded(run: list[str]) -> list[str]:
    words = " ".join(_BEFORE_CUT.sub("", "".join(run)).split())
    return [words] if words else []
