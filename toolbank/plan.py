"""What a run will do, before it does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolbank.bank import Tool
from toolbank.folder import RunFolder
from toolbank.generate.loop import wanted_queries
from toolbank.generate.prompts import Prompts
from toolbank.generate.sampling import make_offers
from toolbank.judge.config import JudgeConfig
from toolbank.llm.chat import Offers
from toolbank.recipe import Recipe, RecipeFile
from toolbank.run import pending
from toolbank.stages import current_tools

_PROMPTS_COUNTED = 20
_CHARACTERS_PER_TOKEN = 4
_ORDERS = 2


def describe_plan(recipe: RecipeFile, out: Path) -> str:
    """Say which stages are to be run, and what will be asked of which model.

    No model is called. Tokens are estimated from rendered prompts, at four characters a
    token. A site that was not crawled yet is crawled; its pages are kept in the run folder.

    Raises:
        InputError: the recipe asks for what can't be, such as more tools than there are.
    """
    todo = pending(recipe.recipe, out)
    lines = [f"{recipe.recipe.name}, in {out}"]
    lines += [f"  {name:<24} {'to do' if todo[name] else 'done'}" for name in todo]
    if todo["generate"]:
        lines += _describe_generation(recipe.recipe, RunFolder(out))
    if todo["judge"]:
        lines.append(_describe_judge(recipe.recipe.judge))
    return "\n".join(lines)


def _describe_generation(recipe: Recipe, folder: RunFolder) -> Iterator[str]:
    config = recipe.generate
    tools = current_tools(recipe, folder)
    offers = make_offers([tool.name for tool in tools], config, recipe.seed)
    if config.engine != "openai":
        wanted = wanted_queries(config)
        told = f"{wanted:,} queries" if wanted else "all queries of its file"
        yield f"{len(tools):,} tools; {told} from {config.engine}; no model is called."
        return
    wanted = wanted_queries(config) or 0
    tokens = _tokens_of_a_prompt(recipe, tools, offers)
    yield f"{len(tools):,} tools; {wanted:,} queries wanted from {config.model}"
    yield (
        f"At least {2 * wanted:,} calls to {config.base_url}, {config.concurrency} at a time: "
        "a write and a polish for each query, and more for what is declined or rejected."
    )
    if folder.journal.is_file():
        yield "Replies that are in the journal already are not asked for again."
    yield (
        f"A write prompt has about {tokens:,.0f} tokens: {wanted * tokens:,.0f} in all. What "
        "that costs depends on the endpoint's price, which is not known here."
    )


def _tokens_of_a_prompt(
    recipe: Recipe, tools: tuple[Tool, ...], offers: Offers
) -> float:
    by_name = {tool.name: tool for tool in tools}
    prompts = Prompts(recipe.domain_name, recipe.generate, recipe.seed)
    characters = 0
    for number in range(_PROMPTS_COUNTED):
        offer = offers.offer(number)
        if offer is not None:
            offered = [by_name[name] for name in offer.tools]
            request = prompts.write(number, offered, offer.at_most)
            characters += sum(len(message.content) for message in request.messages)
    return characters / _PROMPTS_COUNTED / _CHARACTERS_PER_TOKEN


def _describe_judge(config: JudgeConfig) -> str:
    if config.engine == "rules":
        return f"{config.pairs} pairs judged by a heuristic; no model is called."
    calls = config.pairs * len(config.criteria) * _ORDERS
    return (
        f"{config.pairs} pairs judged by {config.model} at {config.base_url}: up to "
        f"{calls:,} calls."
    )
