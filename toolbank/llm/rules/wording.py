"""A phrase of the reference in plainer words, about concrete data."""

from __future__ import annotations

import re
from random import Random

from toolbank.llm.rules.english import Phrase
from toolbank.llm.rules.glossary import load_glossary

_DETERMINER = (
    r"(?:the|an?|each|all|any|some|given|provided|specified|passed|input|two|one|more|or|several|of|in|"
    r"original|same|new|another|other|every|multiple|whole|\w+-dimensional|numeric|flattened|array-like)"
)
_HEAD = r"(?:array-like|arrays?|ndarrays?|tensors?|series|data frames?)"
_VAGUE = r"(?:elements?|values?|data|entries|objects?|sequences?|lists?|inputs?|operands?|arguments?|index(?:es)?)"
_MORE = rf"(?:(?: of|,| or| and|/) ?(?:(?:an?|the|each|all|input|given|first|other) )*(?:{_HEAD}|{_VAGUE}))*"
_DATA = re.compile(
    rf"\b(?:(?:(?!of|in|or)(?:{_DETERMINER}) (?:{_DETERMINER} )*)?{_HEAD}(?: {_VAGUE})?"
    rf"|(?!of|in|or){_DETERMINER} (?:{_DETERMINER} )*{_VAGUE}){_MORE}\b",
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


def say_plainly(phrase: Phrase, things: str, rng: Random) -> Phrase:
    """The phrase with the person's things in place of arrays, and plain words for terms."""
    text, is_do = phrase.text, phrase.kind == "do"
    text = _AXIS.sub(
        lambda _: rng.choice(("", "", " row by row", " for each column")), text, 1
    )
    text = _AXIS.sub("", text)
    text = _ELEMENTWISE.sub(lambda _: rng.choice(("", "", " one by one")), text)
    text = _DATA.sub(f"the {things}", text, 1)
    text = _DATA.sub(lambda _: rng.choice(("them", f"the {things}")), text)
    text = _explain(text, things, is_do, rng)
    return Phrase(phrase.kind, _tidy(text))


def fill(ask: str, things: str, rng: Random) -> str:
    """A glossary's ask about the person's things."""
    return ask.replace(
        "{x}",
        rng.choice((f"the {things}", f"my {things}", f"the {things}", f"our {things}")),
    )


def _explain(text: str, things: str, is_do: bool, rng: Random) -> str:
    glossary = load_glossary()
    pieces: list[str] = []
    end = 0
    left = 2
    for entry, start, stop in glossary.find(text):
        words = glossary.entries[entry].words
        term = text[start:stop].lower()
        if not words or not left or term in things or rng.random() < 0.4:
            continue
        if glossary.entries[entry].is_verb != (start == 0 and is_do):
            continue
        word = rng.choice(words)
        if term not in glossary.terms:
            if " " in word or word.endswith("s"):
                continue
            word += "s"
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
