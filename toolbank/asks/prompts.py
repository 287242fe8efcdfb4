"""What the writer of asks is asked."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

from toolbank.asks.config import AsksConfig
from toolbank.asks.neighbours import Neighbours
from toolbank.bank.catalogue import Version
from toolbank.bank.records import Tool
from toolbank.bank.twins import group_siblings
from toolbank.config.assets import Asset, find_asset
from toolbank.generate.brief import brief
from toolbank.llm.chat import AskTask, ChatRequest, Message, number_of
from toolbank.llm.templates import PromptTemplate

TEMPLATE = "asks.j2"

_DESCRIPTION_CHARACTERS = 500


class AskPrompts:
    """The prompts of one run, one for each group of siblings. `hash` names their file.

    All tools of the bank may be neighbours. What is said of a group as it was in one of the
    `earlier` versions of the catalogue, and in all since, is asked as it was then: with the
    neighbours of that version.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        withheld: Collection[str] = (),
        earlier: Sequence[Version] = (),
    ) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._config = config
        self._domain = domain
        self._template = PromptTemplate(TEMPLATE)
        self._newest = _Edition(tools, withheld)
        before = [_Edition(version.tools, withheld) for version in earlier]
        self._before = before[::-1]
        keys = list(config.keys)
        self._schema = {
            **self._template.schema,
            "properties": {key: {"type": "string"} for key in keys},
            "required": keys,
        }

    def ask(self, group: Sequence[Tool]) -> ChatRequest:
        """Ask for the requests of a tool, which are those of its siblings too.

        Raises:
            InputError: the user's own template is broken.
        """
        config, shown = self._config, _show(group)
        edition, tool = self._newest, group[0]
        for before in self._before:
            former = before.groups.get(tool.name)
            if former is None or _show(former) != shown:
                break
            edition, tool = before, former[0]
        neighbours = edition.neighbours.find(tool, config.neighbours)
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
            task=AskTask(group[0], config.keys),
        )


def group_asked(
    tools: Sequence[Tool], withheld: Collection[str]
) -> Iterator[tuple[Tool, ...]]:
    """The groups of siblings that are asked for, without those that are withheld."""
    for group in group_siblings(tools):
        if left := tuple(tool for tool in group if tool.name not in withheld):
            yield left


def ask_assets() -> tuple[Asset, ...]:
    """The files that shape the prompts."""
    return (find_asset("prompts", TEMPLATE),)


class _Edition:
    """The groups of one version, by their first tools, and who is near whom."""

    def __init__(self, tools: Sequence[Tool], withheld: Collection[str]) -> None:
        self._tools = tools
        self.groups = {group[0].name: group for group in group_asked(tools, withheld)}

    @cached_property
    def neighbours(self) -> Neighbours:
        """Of all tools, whether they are asked for or not."""
        return Neighbours(group_siblings(self._tools))


def _show(group: Sequence[Tool]) -> dict[str, Any]:
    """What a prompt says of a tool and its siblings."""
    tool = group[0]
    description = tool.description if tool.summary else ""
    return {
        "name": tool.name,
        "kind": tool.kind,
        **brief(tool),
        "siblings": [sibling.name for sibling in group[1:]],
        "description": textwrap.shorten(
            description, _DESCRIPTION_CHARACTERS, placeholder=" ..."
        ),
    }
