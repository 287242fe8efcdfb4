"""Steps whose replies hold several texts, each of which is accepted or not by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolbank.llm.chat import Rejection
from toolbank.llm.config import EngineConfig
from toolbank.llm.step import (
    UNUSABLE_AT_FIRST,
    Step,
    StepAnswer,
    StepRun,
    describe_ending,
)
from toolbank.requests.write.bank_builder import LossKind
from toolbank.requests.write.checks import TextChecker
from toolbank.system.terminal import one_line
from toolbank.system.text import replace_surrogates

V = TypeVar("V")
R = TypeVar("R")

_EXCERPT = 100


@dataclass(frozen=True)
class TextLoss:
    """Why a text is not accepted: `declined`, `rejected` or `failed`, with the reason."""

    outcome: LossKind
    reason: str = ""
    detail: str = ""


def read_text(
    said: object, checker: TextChecker, least: int, most: int
) -> str | TextLoss:
    """Read a text of `least` to `most` words, or why it is not accepted.

    It is rejected as `wrong-schema` if it is no text, or by the checks; an empty one is declined.
    """
    if not isinstance(said, str):
        return TextLoss("rejected", "wrong-schema", one_line(str(said), _EXCERPT))
    text = " ".join(said.split())
    if not text:
        return TextLoss("declined")
    problem = checker.check(text, least, most)
    if problem is None:
        return text
    detail = replace_surrogates(problem.detail or one_line(text, _EXCERPT))
    return TextLoss("rejected", problem.reason, detail)


def describe_text_ending(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 150)"."""
    return describe_ending(outcome, reason or "the writer wrote none", detail)


class TextStep(Step[Mapping[str, V | TextLoss], R], Generic[V, R]):
    """A step that requests texts under `keys` in each call.

    It stops after the first few calls if no text is accepted.
    """

    def __init__(self, config: EngineConfig, total: int, keys: Sequence[str]) -> None:
        super().__init__(config, total)
        self._keys = keys
        self._passed = self._lost_texts = 0

    @abstractmethod
    def describe_text(self, text: V) -> str:
        """Describe an accepted text in a line."""

    def outcomes(
        self, answer: StepAnswer[Mapping[str, V | TextLoss]]
    ) -> Mapping[str, V | TextLoss]:
        """Return what became of each text, whether there was a reply or not."""
        value = answer.value
        if not isinstance(value, Rejection):
            return value
        lost = TextLoss("failed", value.reason, value.detail)
        return dict.fromkeys(self._keys, lost)

    def describe(self, answer: StepAnswer[Mapping[str, V | TextLoss]]) -> str:
        """Describe what became of each text, a line each."""
        return "\n".join(
            f"{key}: {describe_text_ending(one.outcome, one.reason, one.detail)}"
            if isinstance(one, TextLoss)
            else f"{key}: accepted: {self.describe_text(one)}"
            for key, one in self.outcomes(answer).items()
        )

    def choose(self, run: StepRun) -> int | None:
        """Choose the next call; stop after the first few if no text passed."""
        if run.begun >= UNUSABLE_AT_FIRST and not (self._passed or run.missing):
            return None
        return super().choose(run)

    def accept(
        self,
        number: int,
        answer: StepAnswer[Mapping[str, V | TextLoss]],
        run: StepRun,
    ) -> None:
        """Take the answer of a call."""
        super().accept(number, answer, run)
        outcomes = self.outcomes(answer).values()
        lost = sum(isinstance(one, TextLoss) for one in outcomes)
        self._lost_texts += lost
        self._passed += len(outcomes) - lost

    def progress(self) -> tuple[int, int]:
        """Count the calls whose reply came, and the texts that are lost."""
        return len(self.answers), self._lost_texts
