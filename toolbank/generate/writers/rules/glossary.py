"""Technical English in plain words: which terms a text holds and how people say them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby

from toolbank.generate.writers.rules.lexicon import VERBS


@dataclass(frozen=True)
class Entry:
    """A term's plain words, what people ask who need it, and data that they ask it of."""

    words: tuple[str, ...]
    asks: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def is_verb(self) -> bool:
        """Whether the plain words are things to do."""
        return all(word.split()[0] in VERBS for word in self.words)


@dataclass(frozen=True)
class Glossary:
    """Entries, the terms that lead to them, and a pattern that finds the terms in a text."""

    entries: tuple[Entry, ...]
    terms: dict[str, int]
    pattern: re.Pattern[str]

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """The terms in a text, longest first at each place: (entry, start, end)."""
        return [
            (self.entry_of(match.group()), match.start(), match.end())
            for match in self.pattern.finditer(text)
        ]

    def entry_of(self, term: str) -> int:
        """The entry of a term as found, which may be its plural."""
        term = term.lower()
        return self.terms[term] if term in self.terms else self.terms[term[:-1]]


@cache
def load_glossary() -> Glossary:
    """Read the glossary that comes with the package."""
    text = files(__package__).joinpath("glossary.txt").read_text(encoding="utf-8")
    entries: list[Entry] = []
    terms: dict[str, int] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "[")):
            continue
        head, _, body = line.partition(":")
        for term in head.split("/"):
            terms.setdefault(term.strip().lower(), len(entries))
        fields = [_split_glossary(field) for field in body.split("|")]
        words, asks, settings = (*fields, (), ())[:3]
        entries.append(Entry(words, asks, settings))
    # By first letters, of which one at most fits a place: a tenth of the time of one long list.
    choices = groupby(
        sorted(terms, key=lambda term: (term[0], -len(term), term)),
        key=lambda term: term[0],
    )
    pattern = "|".join(
        f"{re.escape(first)}(?:{'|'.join(map(_with_plural, group))})"
        for first, group in choices
    )
    return Glossary(
        tuple(entries), terms, re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I)
    )


def weigh_terms(texts: dict[str, float], glossary: Glossary) -> dict[int, float]:
    """How much each entry matters to texts of given weights; an early term matters more."""
    weights: defaultdict[int, float] = defaultdict(float)
    for text, weight in texts.items():
        for place, (entry, _, _) in enumerate(glossary.find(text)):
            weights[entry] = max(weights[entry], weight / (1 + 0.15 * place))
    return dict(weights)


def _with_plural(term: str) -> str:
    """The pattern of a term after its first letter."""
    return re.escape(term[1:]) + ("" if term.endswith("s") else "s?")


def _split_glossary(field: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in field.split(";") if part.strip())
