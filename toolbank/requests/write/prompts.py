"""Fill the prompts of the writer with tools, examples and drafts."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.records import Tool
from toolbank.config.assets import Asset, find_asset
from toolbank.config.explain import first_problem
from toolbank.encoders.config import EncoderConfig
from toolbank.llm.chat import ChatRequest, PolishTask, WriteTask
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.write.checks import Draft
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.language import ask_in_language
from toolbank.system.files import read_lines

TYPICAL = Draft(
    "Our auditor wants every unpaid invoice since March in euros, at the rate of the day it was "
    "issued, as a file that opens in a spreadsheet.",
    ("invoice_search", "currency_conversion"),
    "The invoices found give the amounts to convert, and these are written out.",
)
"""A draft of typical length, for forecasts without examples."""
SAMPLE_REASON = "A sentence that says why, such as this one, is part of every answer."
_MOST_PARAMETERS = 5
_SUMMARY_CHARACTERS = 240
_PARAMETER_CHARACTERS = 90


def brief(tool: Tool) -> dict[str, str]:
    """Describe a tool briefly: its name, summary, parameters and results."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    takes = [
        f"{parameter} ({_shorten(schema['description'])})"
        for parameter, schema in properties.items()
        if schema.get("description")
    ]
    gives = [_shorten(value.description) for value in tool.returns[:2]]
    return {
        "name": tool.name,
        "summary": textwrap.shorten(
            tool.summary or tool.description, _SUMMARY_CHARACTERS, placeholder=" ..."
        ),
        "takes": "; ".join(takes[:_MOST_PARAMETERS]),
        "gives": "; ".join(filter(None, gives)),
    }


def _shorten(text: str) -> str:
    """The first sentence, shortened if necessary."""
    sentence = re.split(r"(?<=[a-z0-9)])\.\s", " ".join(text.split()), maxsplit=1)[0]
    return textwrap.shorten(
        sentence.rstrip("."), _PARAMETER_CHARACTERS, placeholder=" ..."
    )


_CACHED_GROUPINGS = 8


@lru_cache(_CACHED_GROUPINGS)
def group_texts(
    texts: tuple[str, ...], encoder: EncoderConfig, most: int, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Cluster texts into `most` groups, or fewer if fewer texts differ; returns positions.

    Raises:
        InputError: the encoder can't be loaded.
    """
    from toolbank.encoders import load_encoder
    from toolbank.encoders.base import cluster

    vectors = load_encoder(encoder).encode_queries(texts)
    of = cluster(vectors, most, seed).tolist()
    return tuple(
        tuple(place for place, one in enumerate(of) if one == group)
        for group in range(max(of) + 1)
    )


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleTool(_Line):
    """A tool of an example."""

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)


class Example(_Line):
    """A good request, its tools in call order, and how they serve it.

    `draft` is the note that it was written from; without one, the request is its own draft.
    """

    tools: tuple[ExampleTool, ...] = Field(min_length=1)
    draft: str = ""
    query: str = Field(min_length=1)
    explanation: str = Field(min_length=1)


def load_examples(domain: str) -> tuple[Example, ...]:
    """Load the in-context examples of a domain, or the general ones if it has none.

    Raises:
        InputError: a line of the file is not an example.
    """
    return tuple(read_lines(find_examples(domain).path, _parse))


def sample_drafts(domain: str) -> list[Draft]:
    """Make drafts of typical length from the examples in the prompts.

    Raises:
        InputError: a line of the file is not an example.
    """
    return [
        Draft(
            one.draft or one.query,
            tuple(tool.name for tool in one.tools),
            one.explanation,
        )
        for one in load_examples(domain)
    ] or [TYPICAL]


def load_single_examples(domain: str) -> tuple[Example, ...]:
    """Load a domain's examples that need one tool, or the general ones if it has none.

    Raises:
        InputError: a line of a file is not an example.
    """
    own = tuple(one for one in load_examples(domain) if len(one.tools) == 1)
    return own or tuple(read_lines(find_single_examples().path, _parse))


def find_examples(domain: str) -> Asset:
    """Find the file of a domain's in-context examples, or the general one."""
    return find_asset("prompts", f"examples/{domain}.jsonl", "examples/generic.jsonl")


def find_single_examples() -> Asset:
    """Find the file of general examples that need one tool each."""
    return find_asset("prompts", "examples/one-tool.jsonl")


_R = TypeVar("_R", bound=BaseModel)


def make_parser(kind: type[_R], form: str) -> Callable[[dict[str, Any], int], _R]:
    """Make a function that reads a line of a file as a model; `form` says what a line has."""

    def parse(row: dict[str, Any], _: int) -> _R:
        try:
            return kind.model_validate(row)
        except ValidationError as error:
            raise ValueError(f"{first_problem(error)}. A line has {form}") from error

    return parse


_parse = make_parser(
    Example,
    "tools (each with name and description), query, explanation and, if you like, draft",
)


WRITE_TEMPLATE = "write.j2"
NUMBERED_TEMPLATE = "write-number.j2"
POLISH_TEMPLATE = "polish.j2"


class WriterPrompts:
    """The prompts of one run. `hash` is the hash of their files.

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

    @property
    def example_texts(self) -> list[str]:
        """The drafts and requests of all examples."""
        examples = (*self._examples, *self._single)
        return [str(one[key]) for one in examples for key in ("draft", "query")]

    def write(
        self,
        attempt: int,
        tools: Sequence[Tool],
        at_most: int,
        at_least: int | None = None,
        contrast: Sequence[Tool] = (),
    ) -> ChatRequest:
        """Make the request for a draft that needs `at_least` to `at_most` of `tools`.

        `at_least` defaults to the fewest that the recipe allows. The schema allows only names of
        `tools`. `contrast` are tools that the draft must not need.

        Raises:
            InputError: the user's own template is broken.
        """
        at_least = at_least or self._config.fewest_tools
        request = self._write.request(
            attempt,
            "write",
            WriteTask(tuple(tools), at_most, at_least),
            domain=self._domain,
            number=attempt,
            tools=self._show_tools(tools),
            min_tools=at_least,
            at_most=at_most,
            contrast=self._show_tools(contrast),
            examples=self.draw_examples(attempt, at_most, at_least),
            instructions=self._config.instructions.strip(),
        )
        names = {"type": "string", "enum": [tool.name for tool in tools]}
        properties = {
            **request.schema["properties"],
            "tools": {"type": "array", "items": names},
        }
        schema = {**request.schema, "properties": properties}
        return ask_in_language(replace(request, schema=schema), self._config.language)

    def polish(self, attempt: int, draft: Draft, tools: Sequence[Tool]) -> ChatRequest:
        """Make the request for a fluent version of a draft that needs `tools`, in this order.

        Raises:
            InputError: the user's prompts/polish.j2 is broken.
        """
        request = self._polish.request(
            attempt,
            "polish",
            PolishTask(draft.draft, tuple(tools)),
            domain=self._domain,
            number=attempt,
            tools=self._show_tools(tools),
            draft=draft.draft,
            explanation=draft.explanation,
        )
        return ask_in_language(request, self._config.language)

    def draw_examples(
        self, attempt: int, at_most: int, at_least: int
    ) -> list[dict[str, Any]]:
        """Draw the in-context examples of an attempt, by the seed and the arguments alone.

        A request for one tool gets examples of one tool. A request for at least one may get them.
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
    """List the files of the prompts of a domain and these settings."""
    return (
        find_asset("prompts", _write_template(config)),
        find_asset("prompts", POLISH_TEMPLATE),
        find_examples(domain),
        *((find_single_examples(),) if config.is_numbered else ()),
    )


def prompt_hash(domain: str, config: GenerateConfig) -> str:
    """Return the SHA-256, in hex, of the files of `prompt_assets`."""
    hashes = [asset.sha256 for asset in prompt_assets(domain, config)]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def prompt_notes(domain: str, config: GenerateConfig) -> list[str]:
    """List which prompt files are the user's own, and whether examples are missing."""
    assets = prompt_assets(domain, config)
    notes = [f"{asset.kind}/{asset.name}: yours, used" for asset in assets if asset.own]
    if config.is_numbered and find_asset("prompts", WRITE_TEMPLATE).own:
        notes.append(
            f"prompts/{WRITE_TEMPLATE}: yours, not used, because requests of one tool or of an "
            f"exact number use prompts/{NUMBERED_TEMPLATE}"
        )
    own_examples = f"examples/{domain}.jsonl"
    if find_examples(domain).name != own_examples:
        notes.append(
            f"general examples are used; to use your own, write prompts/{own_examples}"
        )
    return notes


def _write_template(config: GenerateConfig) -> str:
    return NUMBERED_TEMPLATE if config.is_numbered else WRITE_TEMPLATE


def _show(example: Example) -> dict[str, Any]:
    draft = example.draft or example.query
    answer = {
        "declined": False,
        "reason": "",
        "tools": [tool.name for tool in example.tools],
        "explanation": example.explanation,
        "draft": draft,
    }
    return {
        "tools": [tool.model_dump() for tool in example.tools],
        "draft": draft,
        "query": example.query,
        "explanation": example.explanation,
        "answer": json.dumps(answer, ensure_ascii=False),
    }
