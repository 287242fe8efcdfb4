"""What the calls that are in flight or still to come will probably cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolbank.chat.chat import ChatReply, ChatRequest
from toolbank.llm.prices import cost

if TYPE_CHECKING:
    from toolbank.journal import StageUsage
    from toolbank.llm.config import Price

_CHARACTERS_PER_TOKEN = 4
# What a completion is taken to cost before the first of its stage came.
_FIRST_COMPLETION = 300.0
# So many calls of a stage are made before the first has told what they cost.
_MOST_GUESSED = 8
# The calls that a row needs once this one was answered.
_AFTER = {"write": ("polish",)}


class Cost(NamedTuple):
    """Calls, tokens and dollars."""

    calls: float = 0.0
    tokens: float = 0.0
    dollars: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """The sum of both."""
        return Cost(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.dollars + other.dollars,
        )


@dataclass
class _Seen:
    replies: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Reserves:
    """Estimates for the calls in flight, and for those that rows which are begun still need.

    A call is taken to cost the mean of its stage so far; before the first reply a token for each
    four characters of the newest prompt, and 300 for the completion.
    """

    def __init__(self, usage: Iterable[StageUsage], price: Price | None) -> None:
        self._price = price
        self._seen: dict[str, _Seen] = {}
        # The stage of each row's call in flight, and the stages still to come.
        self._sent: dict[int, str] = {}
        self._held: dict[int, tuple[str, ...]] = {}
        self._all_sent: Counter[str] = Counter()
        self._all_held: Counter[str] = Counter()
        self._prompt = 0.0
        for row in usage:
            seen = self._seen.setdefault(row.stage, _Seen())
            seen.replies += row.replies
            seen.prompt_tokens += row.prompt_tokens
            seen.completion_tokens += row.completion_tokens

    def need(self, request: ChatRequest) -> Cost:
        """What a call and those of its row after it will cost."""
        characters = sum(len(message.content) for message in request.messages)
        self._prompt = characters / _CHARACTERS_PER_TOKEN
        return self._add_up({}, Counter(_stages(request)))

    def is_known(self, request: ChatRequest) -> bool:
        """Whether a reply of this stage came yet."""
        return request.stage in self._seen

    def is_guess(self, request: ChatRequest) -> bool:
        """Whether so many calls are made already of whose cost nothing is known."""
        stage = request.stage
        return stage not in self._seen and self._all_sent[stage] >= _MOST_GUESSED

    def beside(self, row: int) -> Cost:
        """What the calls in flight and all other rows will cost still."""
        held = self._all_held.copy()
        held.subtract(self._held.get(row, ()))
        return self._add_up(self._all_sent, held)

    def before(self, row: int) -> Cost:
        """What the calls in flight and the rows before this one will cost still."""
        held = Counter(
            stage
            for number, stages in self._held.items()
            if number < row
            for stage in stages
        )
        return self._add_up(self._all_sent, held)

    def has_begun(self, row: int) -> bool:
        """Whether a call of this row was made, and it is not at its end."""
        return row in self._held

    def begin(self, request: ChatRequest) -> None:
        """Note a call that is made, and hold back what its row needs after it."""
        self._sent[request.attempt] = request.stage
        self._all_sent[request.stage] += 1
        self._hold(request.attempt, _stages(request)[1:])

    def end(self, request: ChatRequest, reply: ChatReply | None) -> None:
        """Note what came of a call; one without a reply may be made again."""
        self._end_call(request.attempt)
        if reply is None:
            self._hold(request.attempt, _stages(request))
            return
        seen = self._seen.setdefault(request.stage, _Seen())
        seen.replies += 1
        seen.prompt_tokens += reply.prompt_tokens
        seen.completion_tokens += reply.completion_tokens

    def release(self, row: int) -> None:
        """Hold nothing back for a row any more."""
        self._end_call(row)
        self._hold(row, ())
        self._held.pop(row, None)

    def _end_call(self, row: int) -> None:
        stage = self._sent.pop(row, None)
        if stage is not None:
            self._all_sent[stage] -= 1

    def _hold(self, row: int, stages: tuple[str, ...]) -> None:
        self._all_held.subtract(self._held.get(row, ()))
        self._all_held.update(stages)
        self._held[row] = stages

    def _add_up(self, sent: Mapping[str, int], held: Mapping[str, int]) -> Cost:
        """Calls that were sent are counted already."""
        calls, prompt, completion = 0, 0.0, 0.0
        for stage in {*sent, *held}:
            number = sent.get(stage, 0) + held.get(stage, 0)
            mean = self._mean(stage)
            calls += held.get(stage, 0)
            prompt += number * mean[0]
            completion += number * mean[1]
        dollars = 0.0 if self._price is None else cost(self._price, prompt, completion)
        return Cost(calls, prompt + completion, dollars)

    def _mean(self, stage: str) -> tuple[float, float]:
        seen = self._seen.get(stage)
        if seen is None or not seen.replies:
            return self._prompt, _FIRST_COMPLETION
        return seen.prompt_tokens / seen.replies, seen.completion_tokens / seen.replies


def _stages(request: ChatRequest) -> tuple[str, ...]:
    return (request.stage, *_AFTER.get(request.stage, ()))
