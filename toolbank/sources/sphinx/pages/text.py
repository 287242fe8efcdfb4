"""HTML of a documentation page as plain text."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

_DROPPED_TAGS = frozenset(
    {"script", "style", "svg", "nav", "button", "iframe", "noscript", "template"}
    | {"summary"}
)
_DROPPED_CLASSES = frozenset(
    {
        "headerlink",
        "viewcode-link",
        "viewcode-back",
        "footnote-reference",
        "footnote-list",
        "citation-list",
        "brackets",
        "versionmodified",
        "versionadded",
        "versionchanged",
        "versionremoved",
        "deprecated",
        "deprecated-removed",
        "seealso",
        "admonition-title",
        "eqno",
        "class-bases",
        "inherited-member",
        "sig-object",
        "system-message",
        "toctree-wrapper",
    }
)
_BLOCKS = frozenset(
    {"p", "div", "ul", "ol", "dl", "li", "dt", "dd", "pre", "blockquote", "section"}
    | {"td", "th", "figcaption", "article", "main", "center", "body"}
    | {"aside", "h1", "h2", "h3", "h4", "h5", "h6", "table", "figure", "details"}
)
_PLAIN = frozenset({"code", "tt", "em", "strong"})  # reST does not nest inline markup
_CUT = "\0"  # HTML has no such character
_BEFORE_CUT = re.compile(r"\s*\0")
_CITED = re.compile(r"\[[\w.-]+\]")
_FORMULA = re.compile(r"\\[()\[\]]")
_FILE = re.compile(r"\S*[/.]\S*")
_DOWNLOADS = re.compile(r"\(.*\)", re.S)


def children(node: LexborNode) -> Iterator[LexborNode]:
    """The elements right below a node."""
    return node.iter(include_text=False)


def after(node: LexborNode | None) -> Iterator[LexborNode]:
    """The nodes after a node in the same element, text included."""
    while node is not None and (node := node.next) is not None:
        yield node


def classes(node: LexborNode) -> set[str]:
    """The CSS classes of an element."""
    return set((node.attributes.get("class") or "").split())


def line(node: LexborNode) -> str:
    """Return a node's text as one line."""
    return " ".join(" ".join(_paragraphs(node)).split())


def blocks(node: LexborNode) -> str:
    """Return a node's text: one line per paragraph, blank lines between, "- " before list items.

    Code keeps its lines. A row of a table is a line with " | " between cells. A displayed formula
    is its LaTeX source, a figure its alternative text. Version notes, documented members and links
    of the page itself are removed.
    """
    return "\n\n".join(_paragraphs(node))


def code(node: LexborNode) -> str:
    """Return the text of a block of code, without line numbers."""
    if node.css_first(".linenos") is None:
        text = node.text(deep=True)
    else:
        text = "".join(
            child.text(deep=child.tag != "-text")
            for child in node.iter(include_text=True)
            if child.tag == "-text" or "linenos" not in classes(child)
        )
    return text.strip("\n").rstrip()


def inline(nodes: list[LexborNode]) -> str:
    """Return text and inline elements as one line."""
    return _words([_inline(node) for node in nodes])


def rows(table: LexborNode) -> Iterator[list[LexborNode]]:
    """Yield the cells of each row of a table, without those of nested tables."""
    for part in children(table):
        for row in [part] if part.tag == "tr" else children(part):
            if row.tag == "tr":
                yield [cell for cell in children(row) if cell.tag in ("th", "td")]


def is_block(node: LexborNode) -> bool:
    """Whether an element is a block."""
    return node.tag in _BLOCKS


def is_dropped(node: LexborNode) -> bool:
    """Whether an element has no text, or belongs to another object."""
    if node.tag in _DROPPED_TAGS or not classes(node).isdisjoint(_DROPPED_CLASSES):
        return True
    return node.tag == "dl" and is_members(node)


def is_section(node: LexborNode) -> bool:
    """Whether an element is a section of the page with a heading of its own."""
    return node.tag == "section" or (node.tag == "div" and "section" in classes(node))


def is_members(node: LexborNode) -> bool:
    """Whether a definition list documents objects: its terms are signatures with an anchor."""
    heading = next((child for child in children(node) if child.tag == "dt"), None)
    if heading is None:
        return False
    if "sig" in classes(heading) or "sig-object" in classes(heading):
        return True
    return bool(heading.id) and heading.css_first(".descname, .sig-name") is not None


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
    if node.tag == "table":
        return _table(node)
    if node.tag == "figure":
        return _figure(node)
    if node.tag not in _BLOCKS or (node.tag == "div" and "math" in classes(node)):
        return _folded([_inline(node)])
    paragraphs: list[str] = []
    run: list[str] = []
    for child in node.iter(include_text=True):
        if child.tag in _BLOCKS:
            paragraphs.extend(_folded(run))
            run = []
            if not is_dropped(child):
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


def _table(node: LexborNode) -> list[str]:
    """Rows as lines; a table of line numbers and code is the code."""
    listing = node.css_first("td.code pre")
    if listing is not None:
        return [code(listing)]
    lines = []
    for row in rows(node):
        cells = [line(cell) for cell in row]
        if any(cells):
            lines.append(" | ".join(cells))
    return ["\n".join(lines)] if lines else []


def _figure(node: LexborNode) -> list[str]:
    """Alternative text and caption; a caption in parentheses only links to files."""
    found = [_inline(image) for image in node.css("img")]
    caption = node.css_first("figcaption")
    if caption is not None:
        words = " ".join(_paragraphs(caption))
        found.append("" if _DOWNLOADS.fullmatch(words) else words)
    return _folded([" ".join(words for words in found if words)])


def _inline(node: LexborNode) -> str:
    tag = node.tag
    if tag == "-text":
        return node.text(deep=False)
    if tag in _PLAIN:
        return node.text(deep=True)
    if tag == "br":
        return " "
    found = classes(node)
    if tag in _DROPPED_TAGS or not found.isdisjoint(_DROPPED_CLASSES):
        return ""
    if tag == "img":
        words = node.attributes.get("alt") or ""
        is_file = "math" not in found and _FILE.fullmatch(words)
        return "" if is_file else words
    if tag == "a" and _is_citation(node):
        return _CUT
    if "classifier" in found:
        return f" ({node.text(deep=True).strip()})"
    words = "".join(_inline(child) for child in node.iter(include_text=True))
    return _FORMULA.sub("", words) if "math" in found else words


def _is_citation(node: LexborNode) -> bool:
    """Whether a link is a citation such as "[1]" of a reference on the page."""
    target = node.attributes.get("href") or ""
    return target.startswith("#") and bool(
        _CITED.fullmatch(node.text(deep=True).strip())
    )


def _folded(run: list[str]) -> list[str]:
    return [words] if (words := _words(run)) else []


def _words(run: list[str]) -> str:
    words = "".join(run)
    if _CUT in words:
        words = _BEFORE_CUT.sub("", words)
    return " ".join(words.split())


LISTS = frozenset({"citation-list", "footnote-list", "footnote", "citation"})


def read_references(node: LexborNode) -> str:
    """Return the entries of a reference list, "[1] text", one per line."""
    entries = node.css('[role="doc-biblioentry"], [role="doc-footnote"], tr') or [node]
    lines = []
    for entry in entries:
        label = entry.css_first(".label")
        name = re.sub(r"[\[\]\s]", "", label.text(deep=True)) if label else ""
        words = " ".join(
            line(child)
            for child in children(entry)
            if "label" not in classes(child) and "backrefs" not in classes(child)
        ).strip()
        lines.append(f"[{name}] {words}" if name else words)
    return "\n".join(lines)
