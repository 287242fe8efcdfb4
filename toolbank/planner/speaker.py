"""Who says the next step: a trained model, or an engine that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolbank.llm.chat import EngineError, Rejection, check_finish, find_answer
from toolbank.llm.searches import ask_all, explain_unanswered
from toolbank.planner.config import PlannerModelConfig
from toolbank.planner.language_model import END, LanguageModel
from toolbank.planner.prompt import LAST, STEP, Prompts, Situation


@dataclass(frozen=True)
class Said:
    """A step on one line, whether it ends the plan, and whether the prompt was cut to fit."""

    text: str
    is_last: bool
    is_cut: bool = False


class Speaker(Protocol):
    """Says the next step of each situation."""

    def say(self, situations: Sequence[Situation]) -> list[Said]:
        """One step each."""


@dataclass(frozen=True)
class TrainedSpeaker:
    """A trained model, within as many tokens as it was trained with."""

    model: LanguageModel
    prompts: Prompts
    length: int
    response: int

    def say(self, situations: Sequence[Situation]) -> list[Said]:
        """One step each; the same prompt is answered once."""
        room = self.length - self.response
        distinct = list(dict.fromkeys(situations))
        fitted = [self.prompts.fit(s, self.model.tokenise, room) for s in distinct]
        texts = self.model.say([ids for ids, _ in fitted], self.response)
        said = {}
        for situation, text, (_, is_cut) in zip(distinct, texts, fitted, strict=True):
            step, end, _ = text.partition(END)
            said[situation] = Said(" ".join(step.split()), bool(end), is_cut)
        return [said[situation] for situation in situations]


@dataclass(frozen=True)
class EngineSpeaker:
    """An engine; its replies are kept in the journal of its settings, and asked for once."""

    config: PlannerModelConfig
    prompts: Prompts

    def say(self, situations: Sequence[Situation]) -> list[Said]:
        """One step each; "", as the last, where a reply has none.

        Raises:
            InputError: the engine or the prompt can't be used.
            ToolbankError: calls failed or are still to be answered; what was answered is kept, and
                the same command asks for the rest.
        """
        distinct = list(dict.fromkeys(situations))
        requests = [self.prompts.make_request(situation) for situation in distinct]
        replies = ask_all(requests, self.config)
        if failures := [r for r in replies if isinstance(r, EngineError)]:
            why, journal = str(failures[-1]), self.config.replies
            raise explain_unanswered(len(failures), len(replies), why, journal)
        said = {}
        for situation, reply in zip(distinct, replies, strict=True):
            assert not isinstance(reply, EngineError)
            answer = check_finish(reply) or find_answer(reply.text, [STEP])
            if isinstance(answer, Rejection):
                answer = {STEP: "", LAST: True}
            text = " ".join(str(answer[STEP]).split())
            said[situation] = Said(text, answer.get(LAST) is True)
        return [said[situation] for situation in situations]
