"""What the writer is asked: prompts filled with tools, examples and drafts."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Sequence
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.records import Tool
from toolbank.chat.chat import ChatRequest, Message, PolishTask, WriteTask
from toolbank.config.assets import Asset, find_asset
from toolbank.config.explain import first_problem
from toolbank.generate.config import GenerateConfig
from toolbank.generate.names import shown_names
from toolbank.generate.replies import DRAFT_SCHEMA, POLISHED_SCHEMA, Draft
from toolbank.llm.templates import PromptTemplate
from toolbank.system.errors import InputError
from toolbank.system.files import read_text

WRITE_TEMPLATE = "write.j2"
POLISH_TEMPLATE = "polish.j2"

_MOST_PARAMETERS = 5
_SUMMARY_CHARACTERS = 240
_PARAMETER_CHARACTERS = 90


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleTool(_Line):
    """A tool of an example, by its neutral name."""

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)


class Example(_Line):
    """A good request, the tools that it needs in call order, and how they chain."""

    tools: tuple[ExampleTool, ...] = Field(min_length=2)
    query: str = Field(min_length=1)
    explanation: str = Field(min_length=1)


class Prompts:
    """The prompts of one run. `hash` names the files that they are made from.

    Raises:
        InputError: a line of the examples is not an example.
    """

    def __init__(self, domain: str, config: GenerateConfig, seed: int) -> None:
        self.hash = prompt_hash(domain)
        self._domain = domain
        self._config = config
        self._seed = seed
        self._examples = [_show(example) for example in load_examples(domain)]
        self._write = PromptTemplate(WRITE_TEMPLATE)
        self._polish = PromptTemplate(POLISH_TEMPLATE)
        self._briefs: dict[str, dict[str, str]] = {}

    def write(self, attempt: int, tools: Sequence[Tool], at_most: int) -> ChatRequest:
        """Ask for a draft that needs up to `at_most` of `tools`, or for a decline.

        The schema allows no tool names but those that the prompt shows.

        Raises:
            InputError: the user's prompts/write.j2 is broken.
        """
        prompt = self._write.render(
            domain=self._domain,
            tools=self._show_tools(tools),
            min_tools=self._config.min_tools,
            at_most=at_most,
            examples=self.draw_examples(attempt),
            instructions=self._config.instructions.strip(),
        )
        properties = {
            **DRAFT_SCHEMA["properties"],
            "tools": {
                "type": "array",
                "items": {"type": "string", "enum": list(shown_names(tools))},
            },
        }
        return ChatRequest(
            attempt=attempt,
            stage="write",
            messages=(Message("user", prompt),),
            schema={**DRAFT_SCHEMA, "properties": properties},
            task=WriteTask(tuple(tools), at_most),
        )

    def polish(self, attempt: int, draft: Draft, tools: Sequence[Tool]) -> ChatRequest:
        """Ask for a fluent version of a draft that needs `tools`, in this order.

        Raises:
            InputError: the user's prompts/polish.j2 is broken.
        """
        prompt = self._polish.render(
            domain=self._domain,
            tools=self._show_tools(tools),
            draft=draft.draft,
            explanation=draft.explanation,
        )
        return ChatRequest(
            attempt=attempt,
            stage="polish",
            messages=(Message("user", prompt),),
            schema=POLISHED_SCHEMA,
            task=PolishTask(draft.draft, tuple(tools)),
        )

    def draw_examples(self, attempt: int) -> list[dict[str, Any]]:
        """The in-context examples of an attempt: a function of the seed and its number."""
        random = Random(f"{self._seed}:examples:{attempt}")
        size = min(self._config.examples, len(self._examples))
        return random.sample(self._examples, size)

    def _show_tools(self, tools: Sequence[Tool]) -> list[dict[str, str]]:
        for tool in tools:
            if tool.name not in self._briefs:
                self._briefs[tool.name] = _brief(tool)
        return [
            {"name": name, **self._briefs[tool.name]}
            for name, tool in zip(shown_names(tools), tools, strict=True)
        ]


def load_examples(domain: str) -> tuple[Example, ...]:
    """The in-context examples of a domain; those for any API where it has none of its own.

    Raises:
        InputError: a line of the file is not an example.
    """
    path = find_examples(domain).path
    examples = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            examples.append(Example.model_validate_json(line))
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number}: not an example ({first_problem(error)}). Each line is "
                "an object with tools (each with name and description), query and explanation."
            ) from error
    return tuple(examples)


def find_examples(domain: str) -> Asset:
    """The file of a domain's in-context examples, or the one for any API."""
    try:
        return find_asset("prompts", f"examples/{domain}.jsonl")
    except InputError:
        return find_asset("prompts", "examples/generic.jsonl")


def prompt_assets(domain: str) -> tuple[Asset, ...]:
    """All files that shape a domain's prompts."""
    return (
        find_asset("prompts", WRITE_TEMPLATE),
        find_asset("prompts", POLISH_TEMPLATE),
        find_examples(domain),
    )


def prompt_hash(domain: str) -> str:
    """SHA-256, in hex, over the files that shape a domain's prompts."""
    hashes = [asset.sha256 for asset in prompt_assets(domain)]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def prompt_notes(domain: str) -> list[str]:
    """Lines for people: which prompt files are their own, and whether examples are missing."""
    assets = prompt_assets(domain)
    notes = [f"{asset.kind}/{asset.name}: yours, used" for asset in assets if asset.own]
    own_examples = f"examples/{domain}.jsonl"
    if assets[-1].name != own_examples:
        notes.append(
            f"the general examples are used; for your own, write prompts/{own_examples}"
        )
    return notes


def _brief(tool: Tool) -> dict[str, str]:
    """What a prompt says of a tool, short enough that many fit."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    takes = [
        f"{parameter} ({_shorten(schema['description'])})"
        for parameter, schema in properties.items()
        if schema.get("description")
    ]
    gives = [_shorten(value.description) for value in tool.returns[:2]]
    return {
        "summary": textwrap.shorten(
            tool.summary or tool.description, _SUMMARY_CHARACTERS, placeholder=" ..."
        ),
        "takes": "; ".join(takes[:_MOST_PARAMETERS]),
        "gives": "; ".join(filter(None, gives)),
    }


def _shorten(text: str) -> str:
    """The first sentence, or as much of it as there is room for."""
    sentence = re.split(r"(?<=[a-z0-9)])\.\s", " ".join(text.split()), maxsplit=1)[0]
    return textwrap.shorten(
        sentence.rstrip("."), _PARAMETER_CHARACTERS, placeholder=" ..."
    )


def _show(example: Example) -> dict[str, Any]:
    answer = {
        "declined": False,
        "reason": "",
        "tools": [tool.name for tool in example.tools],
        "explanation": example.explanation,
        "draft": example.query,
    }
    return {
        "tools": [tool.model_dump() for tool in example.tools],
        "query": example.query,
        "explanation": example.explanation,
        "answer": json.dumps(answer, ensure_ascii=False),
    }
