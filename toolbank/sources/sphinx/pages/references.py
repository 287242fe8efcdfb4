"""Lists of references: "[1] A. Author, Title"."""

import re

from selectolax.lexbor import LexborNode

from toolbank.sources.sphinx.pages.text import children, classes, line

LISTS = frozenset({"citation-list", "footnote-list", "footnote", "citation"})


def read_references(node: LexborNode) -> str:
    """Entries of a reference list, "[1] text", a line each."""
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
