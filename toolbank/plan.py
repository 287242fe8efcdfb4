"""What a run will do, before it does it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from toolbank.folder import RunFolder
from toolbank.generate.loop import wanted_queries
from toolbank.recipe import Recipe, RecipeFile
from toolbank.run import pending
from toolbank.stages import current_tools

_PROMPTS_COUNTED = 20
_CHARACTERS_PER_TOKEN = 4


def describe_plan(recipe: RecipeFile, out: Path) -> str:
    """Say which stages are to be run, and what generation will ask of which model.

    Calls no model and writes nothing. Tokens are estimated from rendered prompts, at four
    characters a token.

    Raises:
        InputError: the recipe asks for what can't be, such as more tools than there are.
    """
    lines = [f"{recipe.recipe.name}, in {out}"]
    todo = pending(recipe, out)
    for name, waits in todo.items():
        lines.append(f"  {name:<24} {'to do' if waits else 'done'}")
    if todo["generate"]:
        lines += _describe_generation(recipe.recipe, RunFolder(out))
    return "\n".join(lines)


def _describe_generation(recipe: Recipe, folder: RunFolder) -> list[str]:
    from toolbank.generate.attempt import Writer
    from toolbank.journal import Journal

    config = recipe.generate
    tools = current_tools(recipe, folder)
    with (
        TemporaryDirectory() as folder_name,
        Journal(Path(folder_name, "x")) as journal,
    ):
        writer = Writer(
            tools, config, recipe.domain or recipe.name, recipe.seed, journal
        )
        queries = wanted_queries(config) or writer.count_offers()
        requests = [
            request
            for number in range(_PROMPTS_COUNTED)
            if (request := writer.write_request(number)) is not None
        ]
    characters = [
        sum(len(message.content) for message in request.messages)
        for request in requests
    ]
    tokens = sum(characters) / len(characters) / _CHARACTERS_PER_TOKEN
    lines = [
        f"{len(tools):,} tools; {queries:,} queries wanted from {writer.engine.name}"
        + (f" {writer.engine.model}" if writer.engine.model else "")
    ]
    if config.engine == "openai":
        lines += [
            f"At least {2 * queries:,} calls to {config.base_url}, "
            f"{config.concurrency} at a time: a write and a polish for each query, and more "
            "for what is declined or rejected.",
            f"A write prompt has about {tokens:,.0f} tokens: {queries * tokens:,.0f} in all. "
            "What that costs depends on the endpoint's price.",
        ]
    else:
        lines.append("No model is called.")
    return lines
