"""The words that instructions are read by, from the text files beside this one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def task_verbs() -> frozenset[str]:
    """Verbs that an instruction may ask by, in their base form."""
    return frozenset(word for line in _read_words("verbs.txt") for word in line.split())


@cache
def synonyms(part: str) -> dict[str, str]:
    """The word that stands for each synonym; `part` is "verbs" or "nouns"."""
    found: dict[str, dict[str, str]] = {"verbs": {}, "nouns": {}}
    of = ""
    for line in _read_words("synonyms.txt"):
        first, *others = line.split()
        if not others:
            of = first
        else:
            found[of] |= dict.fromkeys(others, first)
    return found[part]


def _read_words(name: str) -> list[str]:
    text = (files(__package__) / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
