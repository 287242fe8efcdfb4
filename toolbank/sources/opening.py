"""How a description opens."""

import re

_SENTENCE_END = re.compile(r"(?<=[^.\s][^.\s][.!?])\s+(?=[A-Z\"'`(])")
_MAX_SUMMARY = 120


def split_summary(paragraph: str) -> tuple[str, str]:
    """The first paragraph as a summary, and "" or, where it is long, all but its first sentence."""
    line = " ".join(paragraph.split())
    if len(line) <= _MAX_SUMMARY:
        return line, ""
    summary, *rest = _SENTENCE_END.split(line, maxsplit=1)
    return summary, "".join(rest)
