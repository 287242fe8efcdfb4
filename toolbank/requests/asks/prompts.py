"""Fill the prompts for the asks of a tool, and read the replies."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from toolbank.bank.records import Tool, group_siblings
from toolbank.bank.split import CatalogueVersion
from toolbank.config.assets import Asset, find_asset
from toolbank.llm.chat import (
    AskTask,
    ChatReply,
    ChatRequest,
    Message,
    Rejection,
    check_finish,
    find_answer,
    number_from_text,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.asks import AsksConfig, fewest_words
from toolbank.requests.write.bank_builder import LossKind
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.prompts import brief
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.terminal import one_line
from toolbank.system.text import replace_surrogates

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


class Neighbours:
    """The most similar tools by BM25 over name, summary and names of parameters.

    The first tool of each sibling group represents the group. Ties are ordered by name.
    """

    def __init__(self, groups: Sequence[Sequence[Tool]]) -> None:
        groups = sorted(groups, key=lambda group: group[0].name)
        self._tools = [group[0] for group in groups]
        self._places = {
            tool.name: place for place, group in enumerate(groups) for tool in group
        }
        self._index = LexicalIndex.of([_describe(tool) for tool in self._tools])

    def find(self, tool: Tool, k: int) -> list[Tool]:
        """Find up to `k` other groups that share a word, the most similar first."""
        own = self._places[tool.name]
        [scores] = self._index.scores([_describe(tool)])
        # They are ordered by name, which a stable sort keeps among ties.
        order = np.argsort(-scores, kind="stable")[: k + 1].tolist()
        return [
            self._tools[place] for place in order if place != own and scores[place] > 0
        ][:k]


def _describe(tool: Tool) -> str:
    parameters = tool.parameters.get("properties", {})
    text = "\n".join([tool.name, tool.summary or tool.description, *parameters])
    return _SEPARATOR.sub(" ", _HUMP.sub(" ", text))


TEMPLATE = "asks.j2"

_DESCRIPTION_CHARACTERS = 500


class AskPrompts:
    """The prompts of one run, one for each sibling group. `hash` is the hash of their template.

    All tools of the bank may be neighbours. A group that has not changed since an `earlier` version
    of the catalogue keeps its prompt, with the neighbours of that version.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        withheld: Collection[str] = (),
        earlier: Sequence[CatalogueVersion] = (),
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
        """Make the request for the asks of a sibling group.

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
            attempt=number_from_text(tool.name),
            step="ask",
            messages=(Message("user", prompt),),
            schema=self._schema,
            task=AskTask(group[0], config.keys),
        )


def group_asked(
    tools: Sequence[Tool], withheld: Collection[str]
) -> Iterator[tuple[Tool, ...]]:
    """Group siblings, without withheld tools."""
    for group in group_siblings(tools):
        if left := tuple(tool for tool in group if tool.name not in withheld):
            yield left


def ask_assets() -> tuple[Asset, ...]:
    """List the files of the prompts."""
    return (find_asset("prompts", TEMPLATE),)


class _Edition:
    """The sibling groups of one version, by their first tools, and their neighbours."""

    def __init__(self, tools: Sequence[Tool], withheld: Collection[str]) -> None:
        self._tools = tools
        self.groups = {group[0].name: group for group in group_asked(tools, withheld)}

    @cached_property
    def neighbours(self) -> Neighbours:
        """The neighbours among all tools, withheld ones included."""
        return Neighbours(group_siblings(self._tools))


def _show(group: Sequence[Tool]) -> dict[str, Any]:
    """What a prompt shows of a tool and its siblings."""
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


_EXCERPT = 100


@dataclass(frozen=True)
class AskLoss:
    """Why there is no ask under a key: `declined`, `rejected` or `failed`, with the reason."""

    outcome: LossKind
    reason: str = ""
    detail: str = ""


def read_asks(
    reply: ChatReply, config: AsksConfig, checker: TextChecker
) -> dict[str, str | AskLoss]:
    """Read the asks of a reply by their keys, or why each was not accepted.

    If the reply can't be read, all are rejected as `check_finish` and `find_answer` do. A single ask
    is rejected as `missing`, as `wrong-schema` if it is no text, or by the checks; an empty one is
    declined. No reply raises an error.
    """
    answer = check_finish(reply) or find_answer(reply.text, config.keys)
    if isinstance(answer, Rejection):
        lost = AskLoss("rejected", answer.reason, answer.detail)
        return dict.fromkeys(config.keys, lost)
    return {key: _read(answer, key, config, checker) for key in config.keys}


def _read(
    answer: Mapping[str, object], key: str, config: AsksConfig, checker: TextChecker
) -> str | AskLoss:
    if key not in answer:
        return AskLoss("rejected", "missing")
    said = answer[key]
    if not isinstance(said, str):
        return AskLoss("rejected", "wrong-schema", one_line(str(said), _EXCERPT))
    text = " ".join(said.split())
    if not text:
        return AskLoss("declined")
    least = fewest_words(config.keys[key])
    problem = checker.check(text, least, config.max_words)
    if problem is None:
        return text
    detail = replace_surrogates(problem.detail or one_line(text, _EXCERPT))
    return AskLoss("rejected", problem.reason, detail)
