"""The requests that prompts show as examples."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.config.assets import Asset, find_asset
from toolbank.config.explain import first_problem
from toolbank.system.errors import InputError
from toolbank.system.files import read_text


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleTool(_Line):
    """A tool of an example, by its name, as prompts show it."""

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)


class Example(_Line):
    """A good request, the tools that it needs in call order, and how they serve it."""

    tools: tuple[ExampleTool, ...] = Field(min_length=1)
    query: str = Field(min_length=1)
    explanation: str = Field(min_length=1)


def load_examples(domain: str) -> tuple[Example, ...]:
    """The in-context examples of a domain; those for any API where it has none of its own.

    Raises:
        InputError: a line of the file is not an example.
    """
    return _read(find_examples(domain))


def load_single_examples(domain: str) -> tuple[Example, ...]:
    """A domain's examples that need one tool; those for any API where it has none.

    Raises:
        InputError: a line of a file is not an example.
    """
    own = tuple(one for one in load_examples(domain) if len(one.tools) == 1)
    return own or _read(find_single_examples())


def find_examples(domain: str) -> Asset:
    """The file of a domain's in-context examples, or the one for any API."""
    return find_asset("prompts", f"examples/{domain}.jsonl", "examples/generic.jsonl")


def find_single_examples() -> Asset:
    """The file of examples for any API that need one tool each."""
    return find_asset("prompts", "examples/one-tool.jsonl")


def _read(asset: Asset) -> tuple[Example, ...]:
    path, examples = asset.path, []
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
