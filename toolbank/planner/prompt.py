"""What a planner is asked: the request, tools, and the steps before."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbank.llm.chat import ChatRequest, Message, number_of

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.templates import PromptTemplate
    from toolbank.training.text import Ids

TEMPLATE = "plan-step.j2"
STEP, LAST = "step", "last"
"""Under what an answer holds the step, and whether it ends the plan."""

_SUMMARY_CHARACTERS = 120


@dataclass(frozen=True)
class Situation:
    """A request, the tools that are shown, and the texts of the steps before, oldest first."""

    request: str
    tools: tuple[str, ...]
    history: tuple[str, ...]


class Prompts:
    """The texts of situations, by the template and what is said of the tools."""

    def __init__(self, template: PromptTemplate, tools: Sequence[Tool]) -> None:
        self._template = template
        self._shown: Mapping[str, Mapping[str, str]] = {
            tool.name: {"name": tool.name, "summary": _summarise(tool)}
            for tool in tools
        }

    def render(self, situation: Situation, *, as_json: bool = False) -> str:
        """The prompt.

        Raises:
            InputError: the user's prompts/plan-step.j2 is broken.
        """
        return self._template.render(
            request=situation.request,
            tools=[self._shown[name] for name in situation.tools],
            history=list(situation.history),
            as_json=as_json,
        )

    def make_request(self, situation: Situation) -> ChatRequest:
        """Ask an engine for the next step.

        Raises:
            InputError: the user's prompts/plan-step.j2 is broken.
        """
        text = self.render(situation, as_json=True)
        return ChatRequest(
            attempt=number_of(situation.request),
            step="plan",
            messages=(Message("user", text),),
            schema=self._template.schema,
        )

    def fit(
        self, situation: Situation, tokenise: Callable[[str], Ids], room: int
    ) -> tuple[Ids, bool]:
        """The prompt as at most `room` tokens, and whether it was cut to that.

        The oldest steps go first; a prompt that is too long without any loses its beginning.
        """
        history = situation.history
        for start in range(len(history) + 1):
            kept = Situation(situation.request, situation.tools, history[start:])
            ids = tokenise(self.render(kept) + "\n")
            if len(ids) <= room:
                return ids, start > 0
        return ids[-room:], True


def _summarise(tool: Tool) -> str:
    said = tool.summary or tool.description
    return textwrap.shorten(said, _SUMMARY_CHARACTERS, placeholder=" ...")
