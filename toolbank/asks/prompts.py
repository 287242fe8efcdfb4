"""What the writer of asks is asked."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from toolbank.asks.config import AsksConfig
from toolbank.asks.neighbours import Neighbours
from toolbank.bank.records import Tool
from toolbank.bank.siblings import group_siblings
from toolbank.chat.chat import AskTask, ChatRequest, Message, number_of
from toolbank.config.assets import Asset, find_asset
from toolbank.generate.brief import brief
from toolbank.llm.templates import PromptTemplate

TEMPLATE = "asks.j2"

_DESCRIPTION_CHARACTERS = 500


class AskPrompts:
    """The prompts of one run, one for each group of siblings. `hash` names their file.

    All tools of the bank may be neighbours.
    """

    def __init__(self, tools: Sequence[Tool], config: AsksConfig, domain: str) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._config = config
        self._domain = domain
        self._template = PromptTemplate(TEMPLATE)
        self._neighbours = Neighbours(group_siblings(tools))
        self._schema = _make_schema(config)

    def ask(self, group: Sequence[Tool]) -> ChatRequest:
        """Ask for the requests of a tool, which are those of its siblings too.

        Raises:
            InputError: the user's own template is broken.
        """
        tool, config = group[0], self._config
        description = tool.description if tool.summary else ""
        shown = {
            "name": tool.name,
            "kind": tool.kind,
            **brief(tool),
            "siblings": [sibling.name for sibling in group[1:]],
            "description": textwrap.shorten(
                description, _DESCRIPTION_CHARACTERS, placeholder=" ..."
            ),
        }
        neighbours = self._neighbours.find(tool, config.neighbours)
        prompt = self._template.render(
            domain=self._domain,
            tool=shown,
            neighbours=[
                {"name": other.name, "summary": brief(other)["summary"]}
                for other in neighbours
            ],
            asks=[{"key": key, "kind": kind} for key, kind in config.keys.items()],
            instructions=config.instructions.strip(),
        )
        return ChatRequest(
            attempt=number_of(tool.name),
            step="ask",
            messages=(Message("user", prompt),),
            schema=self._schema,
            task=AskTask(tool, config.keys),
        )


def ask_assets() -> tuple[Asset, ...]:
    """The files that shape the prompts."""
    return (find_asset("prompts", TEMPLATE),)


def _make_schema(config: AsksConfig) -> dict[str, Any]:
    keys = list(config.keys)
    return {
        "type": "object",
        "properties": {key: {"type": "string"} for key in keys},
        "required": keys,
        "additionalProperties": False,
    }
