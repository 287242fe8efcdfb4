"""Text of others in Markdown, as text."""

from __future__ import annotations

import re

from toolbank.system.terminal import one_line

_LONGEST = 300
# What makes structure, links (also bare ones) and HTML; a backslash before it makes it a sign.
_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]#|~$]|:(?=//)|(?<=\w)@(?=\w)|(?<=[wW]{3})\.")
_STARTS_LIST = re.compile(r"^(?:[-+]|\d+(?=[.)]))")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text on one line, so that it can't become Markdown's structure, a link or HTML.

    What stands before the host of a URL is left out.
    """
    line = _USER.sub("", one_line(text, longest))
    line = _MEANS_SOMETHING.sub(r"\\\g<0>", line)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _STARTS_LIST.sub(lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", line)


def row(*cells: str) -> str:
    """A row of a table, of cells that are Markdown."""
    return f"| {' | '.join(cells)} |"
