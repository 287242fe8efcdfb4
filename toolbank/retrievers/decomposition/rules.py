"""Splitting a request into subtasks by rules: English only, and rather too little than too much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

# The verbs that an order begins with.
_VERBS = "|".join(
    files(__package__).joinpath("verbs.txt").read_text(encoding="utf-8").split()
)
_OBJECTS = (
    "a|an|the|this|that|these|those|my|our|your|his|her|its|their|me|us|it|them|him|you|"
    "all|any|both|each|every|some|another|one|two|three|in|on|up|off|out|for|to|with|from|at|by|"
    "about|if|whether|what|which|when|where|who|how"
)
_AFTER = r"after\s+that|afterwards?|subsequently|finally|lastly"
_CONDITION = re.compile(r"(?:if|when|once|unless|whenever|as soon as)\b", re.IGNORECASE)
_NO_END = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|no|vs|e\.g|i\.e|approx|[a-z])|(?:^|\n)\s*\d{1,2})\.$",
    re.IGNORECASE,
)

_GAP = re.compile(r"\s{20,}")
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[\"'(\[]?[A-Z0-9])")
_CONNECTIVE = re.compile(
    rf"(?:,|\s)\s*and\s+(?:then|also|next|{_AFTER})\b,?\s+"
    rf"|,\s*(?:then|next|{_AFTER})\b,?\s+",
    re.IGNORECASE,
)
_COORDINATED = re.compile(
    rf"(?:,\s+and|,|\s+and)\s+(?=(?:{_VERBS})\s+(?:{_OBJECTS})\b)", re.IGNORECASE
)
_PLAIN = re.compile(
    r"\s*\n\s*(?:(?:\(?\d{1,2}[.)]|[-*\u2022])\s+)?"
    r"|\s*;\s*"
    r"|(?<=[\s:,])\(?\d{1,2}\)\s+"
)
_OPENING = re.compile(
    rf"\s*(?:(?:\(?\d{{1,2}}[.)]|[-*\u2022])\s+)?"
    rf"(?:(?:and|then|also|next|{_AFTER})\b,?\s*)*",
    re.IGNORECASE,
)
_TASK = re.compile(
    rf"(?:^|\b(?:to|please|me|you|then|also|and|just)\s+)(?:{_VERBS})\b|\?",
    re.IGNORECASE,
)


def split_request(text: str) -> list[str]:
    """The parts of a request that ask for something, in their order; at least one.

    It is cut at the ends of sentences, lines and list items, at semicolons, at ", then", "and
    then", "after that" and the like, and before a further order ("and send it to ..."). A part
    that asks for nothing, such as "My number is 7.", stays with the one before it. No word is
    lost but such connectives and the numbers of list items.
    """
    # A long gap would be looked through from each of its signs.
    text = _GAP.sub(lambda gap: "\n" if "\n" in gap[0] else " ", text)
    parts: list[tuple[int, int]] = []
    for start, end in _pieces(text):
        asks = _TASK.search(text[start:end])
        if parts and not (asks and _TASK.search(text[slice(*parts[-1])])):
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
    split = [text[start:end].strip(" \t\n,;") for start, end in parts]
    return [part for part in split if part] or [text]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where the pieces between the cuts lie, without the connectives that they open with."""
    start = 0
    for cut_start, cut_end in [*_cuts(text), (len(text), len(text))]:
        opening = _OPENING.match(text, start, cut_start)
        begin = opening.end() if opening else start
        if begin < cut_start:
            yield begin, cut_start
        start = cut_end


def _cuts(text: str) -> list[tuple[int, int]]:
    """The spans between pieces, in their order; none overlaps another."""
    plain = {match.span() for match in _PLAIN.finditer(text)}
    ends = {
        match.span()
        for match in _SENTENCE.finditer(text)
        if not _NO_END.search(text, 0, match.start())
    }
    joints = {m.span() for p in (_CONNECTIVE, _COORDINATED) for m in p.finditer(text)}
    cuts: list[tuple[int, int]] = []
    for start, end in sorted(
        plain | ends | joints, key=lambda span: (span[0], -span[1])
    ):
        begin = cuts[-1][1] if cuts else 0
        if start < begin:
            continue
        # "If it rains, then cancel it" is one order.
        if (start, end) in joints and _CONDITION.match(text[begin:start].lstrip()):
            continue
        cuts.append((start, end))
    return cuts
