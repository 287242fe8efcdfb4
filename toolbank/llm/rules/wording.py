"""A phrase of the reference in plainer words, about concrete data."""

from __future__ import annotations

import re
from random import Random

from toolbank.llm.rules.glossary import load_glossary

_BEFORE = (
    r"(?:(?:the|an?|each|all|any|some|given|provided|specified|passed|input|two|one|more|or|several|"
    r"original|same|new|another|other|every|multiple|whole|\w+-dimensional|numeric|flattened|array-like|of) )*"
)
_DATA = re.compile(
    rf"\b{_BEFORE}(?:"
    r"(?:array|tensor|ndarray|array-like|sequence|list|object|input|operand|argument|series|data frame|index)"
    r"(?:s|es)?(?: (?:elements?|values?|data|arrays?|objects?|entries))?|elements|entries|data|values)"
    r"(?:(?: of|,| or| and|/) ?(?:an?|the|each|all)? ?(?:input|given|first)? ?"
    r"(?:arrays?|sequences?|lists?|objects?|series|data frames?|index|indexes|inputs?|data))*\b",
    re.I,
)
_AXIS = re.compile(
    r",? ?\b(?:along|over|for|across|on|about|around|to) (?:the |an? |any |all |each )?"
    r"(?:(?:given|specified|particular|requested|last|single|desired|selected|chosen|number of) )*"
    r"(?:axis|axes|dimensions?)(?: or axes)?(?: of the \w+)?\b",
    re.I,
)
_ELEMENTWISE = re.compile(r",? ?\b(?:element-?wise|elementwise)\b", re.I)
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w))")


def say_plainly(text: str, things: str, rng: Random) -> str:
    """The phrase with the person's things in place of arrays, and plain words for terms."""
    text = _AXIS.sub(
        lambda _: rng.choice(("", "", " row by row", " for each column")), text, 1
    )
    text = _AXIS.sub("", text)
    text = _ELEMENTWISE.sub(lambda _: rng.choice(("", "", " one by one")), text)
    text = _DATA.sub(f"the {things}", text, 1)
    text = _DATA.sub(lambda _: rng.choice(("them", f"the {things}")), text)
    text = _explain(text, things, rng)
    return _tidy(text)


def fill(ask: str, things: str, rng: Random) -> str:
    """A glossary's ask about the person's things."""
    return ask.replace(
        "{x}",
        rng.choice((f"the {things}", f"my {things}", f"the {things}", f"our {things}")),
    )


def _explain(text: str, things: str, rng: Random) -> str:
    glossary = load_glossary()
    pieces: list[str] = []
    end = 0
    left = 2
    for entry, start, stop in glossary.find(text):
        words = glossary.entries[entry].words
        term = text[start:stop]
        if not words or not left or term.lower() in things or rng.random() < 0.4:
            continue
        word = rng.choice(words)
        pieces += [text[end:start], word]
        end = stop
        left -= 1
    return "".join(pieces) + text[end:]


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:-")
    text = re.sub(r"\b(the|a|an) (?:the|an?|them)\b", r"\1", text, flags=re.I)
    text = re.sub(r"\b(\w+) \1\b", r"\1", text)
    return _ARTICLE.sub(_choose_article, text)


def _choose_article(match: re.Match[str]) -> str:
    return match.group(1) + ("n " if match.group(2).lower() in "aeiou" else " ")
