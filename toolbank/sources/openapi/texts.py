"""Plain text of summaries and descriptions, which are Markdown with HTML in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_PARAGRAPH = ("\n\n", "\n\n")
_AROUND = {
    **dict.fromkeys(("p", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6"), _PARAGRAPH),
    **dict.fromkeys(("hr", "ol", "table", "ul", "blockquote", "pre"), _PARAGRAPH),
    **dict.fromkeys(("details", "section", "note", "important"), _PARAGRAPH),
    **dict.fromkeys(("br", "dd", "dt", "summary", "tr"), ("\n", "")),
    **dict.fromkeys(("td", "th"), ("", " | ")),
    "li": ("\n- ", ""),
}
"""The text before and after each element that is not part of a line; AWS has `note`."""
_DROPPED = {"-comment", "script", "style", "iframe", "svg"}
_OPEN = {"br", "hr", "wbr", "p", "li", "dt", "dd", "tr", "td", "th"}
"""Tags that need no end."""
_TAGS = (
    {*_AROUND, *_DROPPED, "a", "abbr", "b", "big", "center", "cite", "code", "del"}
    | {"dfn", "em", "font", "i", "img", "ins", "kbd", "mark", "nobr", "q", "s", "samp"}
    | {"small", "span", "strike", "strong", "sub", "sup", "tbody", "tfoot", "thead"}
    | {"tt", "u", "var", "wbr"}
)
_NAMES = "|".join(sorted(_TAGS - {"-comment"}, key=len, reverse=True))
_ENTITY = r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,30});"
_HTML = re.compile(rf"</?(?:{_NAMES})[\s/>]|<!--|{_ENTITY}", re.I)
_MARKUP = re.compile(
    r"`(?<!``)(?P<more>``++)[\s\S]*?(?<!`)`(?P=more)(?!`)"  # a block of code
    r"|`(?<!``)`(?!`)(?:.|\n(?!\n))+?``(?!`)|`(?<!``)(?:[^`\n]|\n(?!\n))+`"
    rf"|</?(?P<name>{_NAMES})(?=[\s/>])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>"
    rf"|<|&(?!{_ENTITY[1:]})",
    re.I,
)
_MOST_TAGS = 5_000
"""The parser's time grows with the square of the depth."""
_ENDS = re.compile(r"</([a-z]\w*)")
_SPACES = (
    (re.compile(r"[\xa0\u2028]"), " "),
    (re.compile(r"(?<![ \t])[ \t]+(?=\n)"), ""),
    (re.compile(r"(?<=\n-)\s+"), " "),
    (re.compile(r"\n{3,}"), "\n\n"),
)


def plain_text(value: object) -> str:
    """Return a text without its HTML; "" for other values.

    Elements become their content, comments go, entities become characters. Markdown, code and
    placeholders such as <id> stay.
    """
    if not isinstance(value, str):
        return ""
    if ("<" in value or "&" in value) and _HTML.search(value):
        value = _convert(value) if value.count("<") < _MOST_TAGS else value
    return value.strip()


def _convert(text: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    ended, end_of_comments = {*_ENDS.findall(text.lower())}, text.rfind("-->")

    def escape(found: re.Match[str]) -> str:
        """Escape what is no HTML, such as a placeholder: a tag that is never closed."""
        name = (found["name"] or "").lower()
        if name in _OPEN or name in ended:
            return found[0]
        if text.startswith("<!--", found.start()) and found.start() < end_of_comments:
            return found[0]
        is_image = name == "img" and len(found[0]) > len("<img />")
        return found[0] if is_image else html.escape(found[0], quote=False)

    body = LexborHTMLParser(f"<body>{_MARKUP.sub(escape, text)}").body
    plain = "".join(_pieces(body)) if body else ""
    for spaces, right in _SPACES:
        plain = spaces.sub(right, plain)
    return plain


def _pieces(body: LexborNode) -> Iterator[str]:
    """Iterate over the texts of a tree, which may be deep."""
    waiting: list[LexborNode | str] = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif node.tag == "-text":
            yield node.text(deep=False)
        elif (tag := node.tag or "") not in _DROPPED:
            before, after = _AROUND.get(tag, ("", ""))
            yield before or node.attributes.get("alt") or ""
            waiting.append(after)
            waiting += reversed([*node.iter(include_text=True)])
