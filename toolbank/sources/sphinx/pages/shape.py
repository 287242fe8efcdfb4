"""Pages that no site has: their reading would take time with the square of their size."""

import re

# What the parser's time grows with the square of: blocks in blocks, formatting left open, and
# the attributes of a tag.
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
    """A page that can't be read in time; the message says why, as a reason that it failed for."""


def check_shape(html: str) -> None:
    """Refuse a page that the parser could not read in time.

    Raises:
        ShapeError: elements lie 500 deep, or a tag has 1,000 attributes.
    """
    if html.count("<") > _FEW_TAGS and _depth(html) > _MAX_DEPTH:
        raise ShapeError("nested too deeply")
    if len(html) > _SHORT and _CROWDED.search(html):
        raise ShapeError("a tag has too many attributes")


def _depth(html: str) -> int:
    """How deep elements lie in each other, by their tags alone."""
    first, *commented = html.split("<!--")
    shown = [first, *(part.partition("-->")[2] for part in commented)]
    depth = deepest = 0
    for is_end in _NESTING.findall("".join(shown)):
        depth = max(0, depth - 1) if is_end else depth + 1
        deepest = max(deepest, depth)
    return deepest
