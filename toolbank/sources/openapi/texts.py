"""Plain text of summaries and descriptions, which are Markdown with HTML in it."""

from __future__ import annotations

import html
import re
from functools import lru_cache

_LINE, _PARAGRAPH = "\ue000", "\ue001"
"""Characters in private use that mark where a line and a paragraph begin."""
_INLINE = (
    "a abbr b big center cite code del dfn em font i img ins kbd mark nobr q s samp small span "
    "strike strong sub sup tbody tfoot thead tt u var wbr"
)
_BLOCKS = "blockquote details div dl section h1 h2 h3 h4 h5 h6 hr p ol ul pre table important note"
_TAGS = {
    **dict.fromkeys(_INLINE.split(), ("", "")),
    **dict.fromkeys(_BLOCKS.split(), (_PARAGRAPH, _PARAGRAPH)),
    **dict.fromkeys(("dd", "dt", "summary", "tr"), (_LINE, "")),
    **dict.fromkeys(("td", "th"), ("", " | ")),
    "br": (_LINE, _LINE),
    "li": (f"{_LINE}- ", ""),
}
"""What is in place of the start and end of each element; AWS has `note`."""
_TABLE = ("table", "tbody", "td", "tfoot", "th", "thead", "tr")
_NO_END = {"br", "dd", "dt", "hr", "li", "p", "wbr", *_TABLE}
"""Elements that are HTML also where no end follows."""
_DROPPED = "iframe|script|style|svg"
_ENTITY = r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,30});"
_HTML = re.compile(rf"</?(?:{'|'.join(_TAGS)}|{_DROPPED})[\s/>]|<!--|{_ENTITY}", re.I)
_MARKUP = re.compile(
    r"<!--(?:[^<-]++|-(?!->)|<(?!!--))*+-->"
    rf"|<(?P<dropped>{_DROPPED})(?=[\s/>])(?:[^<]++|<(?!/?(?P=dropped)[\s/>]))*+</(?P=dropped)\s*>"
    r"|</?(?P<name>[a-z][a-z0-9]*)(?=[\s/>])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>"
    r"|`(?<!``)(?P<more>``++)[\s\S]*?(?<!`)`(?P=more)(?!`)"  # a block of code
    r"|`(?<!``)`(?!`)(?:.|\n(?!\n))+?``(?!`)|`(?<!``)(?:[^`\n]|\n(?!\n))+`"
    rf"|{_ENTITY}",
    re.I,
)
_ALT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
_LINK = re.compile(r"<a\s|<a>[^\s<>]+</a>")
_ENDS = re.compile(r"</([a-z]\w*)")
_ITEM = re.compile(rf"({_LINE}- )[\s{_PARAGRAPH}]+")
_BREAK = re.compile(rf"([{_LINE}{_PARAGRAPH}][\s{_LINE}{_PARAGRAPH}]*)")
_MOST_MARKS = 5_000
"""The time grows with the square of the depth of tags, and of the number of lengths of fences."""


def plain_text(value: object) -> str:
    """Return a text without its HTML; "" for other values.

    Elements become their content, comments go, entities become characters. Markdown, code and
    placeholders such as <id> stay.
    """
    if not isinstance(value, str):
        return ""
    if ("<" in value or "&" in value) and _HTML.search(value):
        marks = value.count("<") + value.count("`")
        return _convert(value) if marks < _MOST_MARKS else value
    return value


@lru_cache(maxsize=4096)
def _convert(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lower = text.lower()
    ended = {*_ENDS.findall(lower)}
    if not _LINK.search(lower):
        ended.discard("a")

    def replace(found: re.Match[str]) -> str:
        """What is no HTML stays, such as a placeholder: a tag that is never closed."""
        said, name = found[0], (found["name"] or "").lower()
        if said[0] == "&":
            return html.unescape(said)
        if not name:
            return said if said[0] == "`" else ""
        if name == "img" and " " in said:
            alt = _ALT.search(said)
            return html.unescape("".join(filter(None, alt.groups()))) if alt else ""
        if name in _TAGS and (name in ended or name in _NO_END):
            return _TAGS[name][said[1] == "/"]
        return said

    plain = _ITEM.sub(r"\1", _MARKUP.sub(replace, text))
    before, *rest = _BREAK.split(plain)
    lines = [before.rstrip()]
    for said, words in zip(rest[::2], rest[1::2], strict=True):
        is_wide = _PARAGRAPH in said or "\n\n" in said or said.count(_LINE) > 1
        lines += ["\n\n" if is_wide else "\n", words.rstrip()]
    return "".join(lines).replace("\xa0", " ").replace("\u2028", "\n").strip()
