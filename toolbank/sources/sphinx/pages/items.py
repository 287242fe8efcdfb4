"""Entries of a field list: "name (type) - text", however their HTML holds them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from selectolax.lexbor import LexborNode

from toolbank.sources.sphinx.pages.text import inline, is_block, is_dropped, line

_DASH = re.compile(r"\s*(?:(?:[\u2013\u2014:]|--?(?=\s|$))\s*)+")
_BOLD = frozenset({"strong", "b"})
_TEXT = "-text"


@dataclass(frozen=True)
class Item:
    """One entry; `nodes` are what follows the paragraph that it begins with.

    `name` is what stands in bold, `type` what stands in parentheses after it; `label` is what an
    entry without the two has before its dash; `text` is the rest of the first paragraph.
    """

    name: str
    type: str
    label: str
    text: str
    nodes: tuple[LexborNode, ...] = ()

    def described(self, left_out: LexborNode | None = None) -> str:
        """All that the entry says, as one line, without one of its elements."""
        hidden = None if left_out is None else left_out.mem_id
        parts = [self.text]
        for node in self.nodes:
            if node.tag == _TEXT:
                parts.append(" ".join(node.text(deep=False).split()))
            elif node.mem_id != hidden and not is_dropped(node):
                parts.append(line(node))
        return " ".join(part for part in parts if part)


def read_item(nodes: Iterable[LexborNode]) -> Item:
    """Read the content of an `li` or `dd`, its text included."""
    content = list(nodes)
    start = 0
    while start < len(content) and _is_empty(content[start]):
        start += 1
    if start < len(content) and content[start].tag == "p":
        head = list(content[start].iter(include_text=True))
        end = start + 1
    else:
        end = start
        while end < len(content) and not is_block(content[end]):
            end += 1
        head = content[start:end]
    name, head = _name(head)
    kind, label, text = _parts(head, bool(name))
    return Item(name, kind, label, text, tuple(content[end:]))


def _is_empty(node: LexborNode) -> bool:
    if node.tag == _TEXT:
        return not node.text(deep=False).strip()
    return node.tag == "p" and not node.text(deep=True).strip()


def _name(head: list[LexborNode]) -> tuple[str, list[LexborNode]]:
    """What the entry begins with in bold, and the nodes after it."""
    end = 0
    for position, node in enumerate(head):
        if node.tag in _BOLD:
            end = position + 1
        elif node.text(deep=node.tag != _TEXT).strip(" \n,\u00b6#"):
            break
    return inline(head[:end]), head[end:]


def _parts(head: list[LexborNode], is_named: bool) -> tuple[str, str, str]:
    """Type, label and text of what follows the name."""
    words = inline(head)
    if words.startswith("("):
        end = _closing(words)
        dash = _DASH.match(words, end)
        if end and (is_named or dash):
            text = words[dash.end() if dash else end :]
            return words[1 : end - 1].strip(), "", text.strip()
    if is_named:
        dash = _DASH.match(words)
        return "", "", words[dash.end() if dash else 0 :]
    lead: list[LexborNode] = []
    for node in head:
        if node.tag == _TEXT and node.text(deep=False).strip():
            break
        lead.append(node)
    label = inline(lead)
    dash = _DASH.match(words, len(label))
    return ("", label, words[dash.end() :]) if label and dash else ("", "", words)


def _closing(words: str) -> int:
    """Position behind the parenthesis that closes the first one; 0 where none does."""
    depth = 0
    for position, character in enumerate(words):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return position + 1
    return 0
