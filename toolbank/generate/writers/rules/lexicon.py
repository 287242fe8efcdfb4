"""Everyday English that requests are made of: verbs, openings, places, persons (`lexicon.txt`)."""

from __future__ import annotations

from importlib.resources import files


def _read_lists() -> dict[str, str]:
    """The text of each list by its [name], without comments."""
    lists: dict[str, str] = {}
    name = ""
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif not line.startswith("#"):
            lists[name] = f"{lists.get(name, '')} {line}"
    return lists


def _split(phrases: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in phrases.split(";"))


_LISTS = _read_lists()

VERBS = frozenset(_LISTS["verbs"].split())
SPOKEN_VERBS = VERBS.union(_LISTS["spoken verbs"].split())
GIVING = frozenset(_LISTS["giving"].split())
MAKING = frozenset(_LISTS["making"].split())
SERVICE_VERBS = frozenset(_LISTS["service verbs"].split())
ADVERBS = frozenset(_LISTS["adverbs"].split())
QUESTION_WORDS = frozenset(_LISTS["question words"].split())
FINITE = frozenset(_LISTS["finite"].split())
DETERMINERS = frozenset(_LISTS["determiners"].split())
PREPOSITIONS = frozenset(_LISTS["prepositions"].split())
NO_BEGINNING = (PREPOSITIONS | FINITE).union(_LISTS["no beginning"].split())

THINGS = _split(_LISTS["things"])
PLACES = _split(_LISTS["places"])
