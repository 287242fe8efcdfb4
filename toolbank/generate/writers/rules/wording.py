"""A phrase of the reference in plainer words, about concrete data."""

from __future__ import annotations

import re
from random import Random

from toolbank.generate.writers.rules.english import Phrase
from toolbank.generate.writers.rules.glossary import Entry, load_glossary
from toolbank.generate.writers.rules.lexicon import (
    DETERMINERS,
    FINITE,
    PREPOSITIONS,
    VERBS,
)

_DETERMINER = (
    r"(?:the|an?|each|all|any|some|given|provided|specified|passed|input|two|one|more|or|several|of|in|"
    r"original|single|same|new|another|other|every|multiple|whole|\w+-dimensional|numeric|flattened|array-like)"
)
_HEAD = r"(?:array-like|arrays?|ndarrays?|tensors?|series|data frames?)"
_VAGUE = r"(?:elements?|values?|data|entries|objects?|sequences?|lists?|inputs?|operands?|arguments?|index(?:es)?)"
_MORE = rf"(?:(?: of|,| or| and|/) ?(?:(?:an?|the|each|all|input|given|first|other) )*(?:{_HEAD}|{_VAGUE}))*"
_DATA_WORDS = re.compile(
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
_AXIS_AT_END = re.compile(rf"(?:{_AXIS.pattern})$", re.I)
_BEFORE_THE = (
    PREPOSITIONS
    | FINITE
    | VERBS
    | {"whether", "that", "which", "each", "all", "both", "only", "its"}
)
_AFTER_NOUN = frozenset(
    ["of", "for", "in", "with", "over", "between", "from", "to", "that", "along"]
)
_ELEMENTWISE = re.compile(r",? ?\b(?:element-?wise|elementwise)\b", re.I)
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w))")


def say_plainly(phrase: Phrase, things: str, rng: Random) -> Phrase:
    """The phrase with the person's things in place of arrays, and plain words for terms."""
    text, is_do = phrase.text, phrase.kind == "do"
    text = _AXIS_AT_END.sub(
        lambda _: rng.choice(("", "", "", " row by row", " for each column")), text
    )
    text = _ELEMENTWISE.sub("", _AXIS.sub("", text))
    text = _explain(text, things, is_do, rng)

    def name_data(match: re.Match[str]) -> str:
        before = text[: match.start()].split()
        if (
            before
            and not (len(before) == 1 and is_do)
            and before[-1] not in _BEFORE_THE
        ):
            return things
        return f"the {things}"

    text = _DATA_WORDS.sub(name_data, text)
    text = re.sub(rf"\b({re.escape(things)}) (is|has|was)\b", _agree, text)
    return Phrase(phrase.kind, _tidy(text))


def _agree(match: re.Match[str]) -> str:
    return f"{match.group(1)} {({'is': 'are', 'has': 'have', 'was': 'were'})[match.group(2)]}"


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
        if not _fits(
            glossary.entries[entry], text[:start].split(), text[stop:].split(), is_do
        ):
            continue
        word = rng.choice(
            [w for w in words if w.split()[-1] not in PREPOSITIONS] or [term]
        )
        if term not in glossary.terms:
            if " " in word or word.endswith("s"):
                continue
            word += "s"
        pieces += [text[end:start], word]
        end = stop
        left -= 1
    return "".join(pieces) + text[end:]


def _fits(entry: Entry, before: list[str], after: list[str], is_do: bool) -> bool:
    """Whether an entry's words can stand between others: as the verb, or as a whole noun."""
    if is_do and not before:
        return entry.is_verb and bool(after) and after[0] in DETERMINERS
    if entry.is_verb or not before:
        return False
    stands_first = before[-1].lower() in DETERMINERS | PREPOSITIONS
    return stands_first and (not after or after[0].lower() in _AFTER_NOUN)


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:-")
    text = re.sub(r"\b(the|a|an) (?:the|an?|them)\b", r"\1", text, flags=re.I)
    text = re.sub(r"\b(\w+) \1\b", r"\1", text)
    return _ARTICLE.sub(_choose_article, text)


def _choose_article(match: re.Match[str]) -> str:
    return match.group(1) + ("n " if match.group(2).lower() in "aeiou" else " ")
