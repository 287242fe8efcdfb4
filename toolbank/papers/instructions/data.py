"""The task of an instruction: its verb, and the noun that the verb is about (PIE, arXiv 2409.19680)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from toolbank.papers.experiment import read_rows
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras
from toolbank.system.files import get_text


def read_instructions(folder: Path) -> list[str]:
    """Read the distinct instructions of eft_train_unsup.jsonl.

    Raises:
        InputError: the file is missing, empty or has broken lines.
    """
    path = folder / "eft_train_unsup.jsonl"
    rows = read_rows(path, lambda row, _: get_text(row, "instruction"))
    return list(dict.fromkeys(rows))


def read_labelled(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the instructions [n] of eft_test.jsonl, and the labels of their tasks.

    Raises:
        InputError: the file is missing, empty or has broken lines.
    """

    def parse(row: dict[str, Any], _: int) -> tuple[str, str]:
        return get_text(row, "instruction"), get_text(row, "label")

    instructions, labels = zip(
        *read_rows(folder / "eft_test.jsonl", parse), strict=True
    )
    return instructions, labels


def read_pairs(
    folder: Path,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Read the pairs [n] of intention_similarity_test.jsonl; 1 for those of one task, else 0.

    Raises:
        InputError: the file is missing, has broken lines, or has not both labels.
    """

    def parse(row: dict[str, Any], _: int) -> tuple[str, str, int]:
        if row.get("label") not in (0, 1):
            raise ValueError('"label" is not 0 or 1')
        left, right = get_text(row, "instruction1"), get_text(row, "instruction2")
        return left, right, int(row["label"])

    path = folder / "intention_similarity_test.jsonl"
    left, right, same = zip(*read_rows(path, parse), strict=True)
    if len(set(same)) < 2:
        raise InputError(f"{path}: needs pairs of both labels, 0 and 1.")
    return left, right, same


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


KNOWLEDGE = "knowledge"
"""The noun of a question that asks what something is."""

_WH = {"what", "when", "where", "who", "which", "why", "how", "whose", "whom"}
_MODALS = {"can", "could", "will", "would", "should", "must", "may"}
_AUXILIARIES = {"is", "are", "was", "were", "do", "does", "did", "has", "have", "had"}
_PREAMBLES = {"imagine", "consider", "suppose", "assume", "read"}
"""Verbs that only say what the instruction is about, where another one follows."""
_GIVEN = {"following", "given", "suggested", "this", "these", "below"}
_BEFORE_TO = {"you", "me", "task", "asked", "need", "is"}
_BEYOND_NOUNS = {"following", "given", "out", "up", "me", "lot", "below", "above"}
"""What the tagger takes for nouns and is none here."""
_OPENERS = {"'", '"', "-", "/", "(", "“", "”", "``"}
_SINGULAR = {"news", "politics", "bias", "lens", "gas", "css", "series", "species"}
_BRITISH = {"analyse": "analyze", "summarise": "summarize", "organise": "organize"}


@dataclass(frozen=True, order=True)
class Task:
    """What an instruction asks for. A question's verb is its form, such as "what", "yes-no"."""

    verb: str
    noun: str

    @property
    def label(self) -> str:
        """As the benchmark writes it, such as "write|story"."""
        return f"{self.verb}|{self.noun}"

    def merged(self) -> Task:
        """The task under the first of its words' synonyms."""
        return Task(
            synonyms("verbs").get(self.verb, self.verb),
            synonyms("nouns").get(self.noun, self.noun),
        )


def parse_task(instruction: str) -> Task:
    """The task of an instruction, by parts of speech; of any text, some task.

    The verb is the first at the beginning of a clause that is known to ask for something; the noun
    is the first after it. A question that asks for knowledge is named by its form, and what has no
    verb is "noun|knowledge" (PIE, arXiv 2409.19680, section 3.1).

    Raises:
        InputError: TextBlob, by which words are tagged, is not installed.
    """
    return _Instruction(_tag(instruction)).task()


class _Instruction:
    """Its words, as they are and in lower case, and their parts of speech."""

    def __init__(self, tagged: Sequence[tuple[str, str]]) -> None:
        self._words = [word for word, _ in tagged]
        self._lower = [word.lower() for word, _ in tagged]
        self._tags = [tag for _, tag in tagged]

    def task(self) -> Task:
        starts = [i for i in range(len(self._words)) if self._starts_clause(i)]
        asking = [i for i in starts if self._verb(i)]
        opener = self._lower[0] if self._lower else ""
        if opener in _WH:
            # "How would you describe ..." asks to describe.
            addressed = self._after_address()
            asking = [i for i in asking if i and self._words[i][0].isupper()]
            asking = [addressed] if addressed else asking
            if not asking:
                return Task(opener, KNOWLEDGE)
        elif opener in _AUXILIARIES | _MODALS and self._lower[1:2] not in (
            ["you"],
            ["i"],
        ):
            about = "task" if _GIVEN & set(self._lower) else KNOWLEDGE
            return Task("yes-no", about)
        for i in asking:
            later = any(j > i and self._words[j][0].isupper() for j in asking)
            if self._lower[i] not in _PREAMBLES or not later:
                return Task(self._verb(i), self._find_noun(i + 1))
        for i, tag in enumerate(self._tags):
            if tag in ("VB", "VBP"):
                return Task(self._lower[i], self._find_noun(i + 1))
        return Task(next((w for w in self._lower if w in _WH), "noun"), KNOWLEDGE)

    def _verb(self, i: int) -> str:
        """The word in its American spelling if it may ask for something; else ""."""
        word = _BRITISH.get(self._lower[i], self._lower[i])
        heads = self._lower[i + 1 : i + 2] == [":"]
        known = word in task_verbs() and self._tags[i] != "IN" and not heads
        return word if known else ""

    def _starts_clause(self, i: int) -> bool:
        before = self._lower[i - 1] if i else "."
        back = self._lower[max(0, i - 6) : i]
        if not before[-1:].isalnum():
            return before not in _OPENERS
        if before == "to":
            return bool(_BEFORE_TO & set(back))
        if before == "you":
            return bool(_MODALS & set(back[-2:]))
        if before in _MODALS:
            return "you" in back[-2:]
        return before == "please"

    def _after_address(self) -> int:
        """Where "how would you" or "what do I" goes on with a verb; 0 if it does not."""
        for i in range(2, min(len(self._words) - 1, 4)):
            asks = self._lower[i - 1] in _MODALS | _AUXILIARIES
            if self._lower[i] in ("you", "i", "we") and asks and self._verb(i + 1):
                return i + 1
        return 0

    def _find_noun(self, start: int) -> str:
        """The first noun of the sentence, else of what comes after it."""
        for i in range(start, len(self._words)):
            word = self._lower[i]
            fits = self._tags[i] in ("NN", "NNS") and word not in _BEYOND_NOUNS
            if fits and word.isalpha() and len(word) > 1:
                return _singular(word)
        return KNOWLEDGE


def _tag(text: str) -> list[tuple[str, str]]:
    with naming_extras("Reading instructions"):
        from textblob.en import tag

    found: Any = tag(text)
    return [(word, part) for word, part in found if word]


def _singular(noun: str) -> str:
    from textblob.en.inflect import singularize

    if noun in _SINGULAR or noun.endswith(("ss", "is", "us")):
        return noun
    return str(singularize(noun)) if noun.endswith("s") else noun
