"""What the writer is asked: prompts filled with tools, examples and drafts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from toolbank.bank.records import Tool
from toolbank.config.assets import Asset, find_asset
from toolbank.generate.brief import brief
from toolbank.generate.config import GenerateConfig
from toolbank.generate.diverse import group_texts
from toolbank.generate.examples import (
    Example,
    find_examples,
    find_single_examples,
    load_examples,
    load_single_examples,
)
from toolbank.generate.replies import Draft
from toolbank.llm.chat import ChatRequest, Message, PolishTask, WriteTask
from toolbank.llm.templates import PromptTemplate

WRITE_TEMPLATE = "write.j2"
NUMBERED_TEMPLATE = "write-number.j2"
POLISH_TEMPLATE = "polish.j2"


class Prompts:
    """The prompts of one run. `hash` names the files that they are made from.

    Raises:
        InputError: a line of the examples is not an example.
    """

    def __init__(self, domain: str, config: GenerateConfig, seed: int) -> None:
        self.hash = prompt_hash(domain, config)
        self._domain = domain
        self._config = config
        self._seed = seed
        self._examples = [_show(example) for example in load_examples(domain)]
        single = load_single_examples(domain) if config.is_numbered else ()
        self._single = [_show(example) for example in single]
        self._write = PromptTemplate(_write_template(config))
        self._polish = PromptTemplate(POLISH_TEMPLATE)
        self._briefs: dict[str, dict[str, str]] = {}

    def write(
        self,
        attempt: int,
        tools: Sequence[Tool],
        at_most: int,
        at_least: int | None = None,
    ) -> ChatRequest:
        """Ask for a draft that needs `at_least` to `at_most` of `tools`, or for a decline.

        Without `at_least`, as few as the recipe allows. The schema allows no names but those
        of `tools`.

        Raises:
            InputError: the user's own template is broken.
        """
        at_least = at_least or self._config.fewest_tools
        prompt = self._write.render(
            domain=self._domain,
            tools=self._show_tools(tools),
            min_tools=at_least,
            at_most=at_most,
            examples=self.draw_examples(attempt, at_most, at_least),
            instructions=self._config.instructions.strip(),
        )
        schema = self._write.schema
        properties = {
            **schema["properties"],
            "tools": {
                "type": "array",
                "items": {"type": "string", "enum": [tool.name for tool in tools]},
            },
        }
        return ChatRequest(
            attempt=attempt,
            step="write",
            messages=(Message("user", prompt),),
            schema={**schema, "properties": properties},
            task=WriteTask(tuple(tools), at_most, at_least),
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
            step="polish",
            messages=(Message("user", prompt),),
            schema=self._polish.schema,
            task=PolishTask(draft.draft, tuple(tools)),
        )

    def draw_examples(
        self, attempt: int, at_most: int, at_least: int
    ) -> list[dict[str, Any]]:
        """The in-context examples of an attempt: a function of the seed and the arguments.

        Those of one tool are shown to whom is asked for one, and may be where one will do.
        """
        fit = self._single
        if at_most > 1:
            least = min(at_least, 2)
            fit = [one for one in self._examples if len(one["tools"]) >= least]
        random = Random(f"{self._seed}:examples:{attempt}")
        size = min(self._config.examples, len(fit))
        encoder = self._config.diverse_examples
        if encoder is None or size < 2:
            return random.sample(fit, size)
        texts = tuple(one["query"] for one in fit)
        groups = group_texts(texts, encoder, size, self._seed)
        return [
            fit[random.choice(group)] for group in random.sample(groups, len(groups))
        ]

    def _show_tools(self, tools: Sequence[Tool]) -> list[dict[str, str]]:
        for tool in tools:
            if tool.name not in self._briefs:
                self._briefs[tool.name] = brief(tool)
        return [self._briefs[tool.name] for tool in tools]


def prompt_assets(domain: str, config: GenerateConfig) -> tuple[Asset, ...]:
    """All files that shape the prompts of a domain and these settings."""
    return (
        find_asset("prompts", _write_template(config)),
        find_asset("prompts", POLISH_TEMPLATE),
        find_examples(domain),
        *((find_single_examples(),) if config.is_numbered else ()),
    )


def prompt_hash(domain: str, config: GenerateConfig) -> str:
    """SHA-256, in hex, over the files that shape the prompts of a domain and these settings."""
    hashes = [asset.sha256 for asset in prompt_assets(domain, config)]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def prompt_notes(domain: str, config: GenerateConfig) -> list[str]:
    """Lines for people: which prompt files are their own, and whether examples are missing."""
    assets = prompt_assets(domain, config)
    notes = [f"{asset.kind}/{asset.name}: yours, used" for asset in assets if asset.own]
    if config.is_numbered and find_asset("prompts", WRITE_TEMPLATE).own:
        notes.append(
            f"prompts/{WRITE_TEMPLATE}: yours, not used: where one tool or an exact number is "
            f"asked for, it is prompts/{NUMBERED_TEMPLATE}"
        )
    own_examples = f"examples/{domain}.jsonl"
    if find_examples(domain).name != own_examples:
        notes.append(
            f"the general examples are used; for your own, write prompts/{own_examples}"
        )
    return notes


def _write_template(config: GenerateConfig) -> str:
    return NUMBERED_TEMPLATE if config.is_numbered else WRITE_TEMPLATE


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
