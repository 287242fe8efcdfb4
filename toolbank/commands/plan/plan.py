"""What a run will do, before it does it."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from toolbank.bank.files import read_tools
from toolbank.bank.records import Tool
from toolbank.commands.plan.forecast import (
    CHARACTERS_PER_TOKEN,
    Forecast,
    forecast_generation,
    forecast_judge,
)
from toolbank.commands.plan.retrievers import describe_dataset, describe_subtasks
from toolbank.encoders.model import find_here
from toolbank.generate.config import GenerateConfig
from toolbank.generate.loop import most_attempts, wanted_queries
from toolbank.generate.writers import find_writer
from toolbank.judge.engine import find_judge
from toolbank.llm.accounts import Spent
from toolbank.llm.config import EngineConfig
from toolbank.llm.engines.openai.completion import make_body
from toolbank.llm.prices import cost, resolve_price
from toolbank.recipe import Recipe, RecipeFile, is_run_folder, load_recipe
from toolbank.run.folder import RunFolder
from toolbank.run.run import find_todo
from toolbank.run.stages import make_stages
from toolbank.run.stages.sources import current_tools
from toolbank.system.errors import InputError
from toolbank.system.numbers import about, dollars, duration, rate, seconds, span

_WIDTH = 88
_INDENT = 11
_CALL = {"write": "write", "polish": "polish", "judge": "comparison"}
# Where nothing was measured and nothing is set.
_ASSUMED_SECONDS = 5.0
_ASSUMED_AT_ONCE = 64


def describe_plan(recipe: RecipeFile, out: Path) -> str:
    """Say which stages are to be run, and what will be asked of which model.

    No model is called. A site that was not crawled yet is crawled; its pages are kept in the
    run folder. Tools that were read by the same sources are not read again.

    Raises:
        InputError: the recipe asks for what can't be, such as more tools than there are.
        ToolbankError: the journal is damaged.
    """
    stages = make_stages(recipe.recipe, RunFolder(out))
    names = find_todo(stages)
    todo = {stage.name: stage.name in names for stage in stages}
    for stage in stages:
        if todo[stage.name]:
            stage.check()
    missing = dict.fromkeys(
        encoder.model
        for config in recipe.recipe.retrievers
        if todo[f"retrievers/{config.label}"]
        for encoder in config.encoders
        if find_here(encoder.model) is None
    )
    folder = RunFolder(out)
    lines = [f"{recipe.recipe.name}, in {out}", *_note_other_settings(recipe, out)]
    if lost := folder.explain_lost_stamps():
        lines.append(f"  {lost}")
    lines += [f"  {name:<24} {'to do' if todo[name] else 'done'}" for name in todo]
    if todo.get("dataset"):
        lines += ["", *describe_dataset(recipe.recipe)]
    if todo.get("generate"):
        lines += ["", *_describe_generation(recipe.recipe, folder)]
    if todo.get("judge"):
        lines += ["", *_describe_judge(recipe.recipe, folder, todo["generate"])]
    if missing:
        lines += [
            "",
            *(
                f"Encoder {name}: is not on this machine; the run downloads it"
                for name in missing
            ),
        ]
    if todo["evaluate"]:
        bank_changes = todo.get("dataset", todo.get("generate", False))
        told = list(describe_subtasks(recipe.recipe, folder, bank_changes))
        lines += ["", *told] if told else []
    return "\n".join(lines)


def _note_other_settings(recipe: RecipeFile, out: Path) -> list[str]:
    """That the folder was made with other settings than these, such as by --set."""
    if not is_run_folder(out):
        return []
    try:
        if load_recipe(str(out)).recipe == recipe.recipe:
            return []
    except InputError:
        return []
    return [
        "  The folder's last run had other settings. What it would do with them:",
        f"  toolbank plan {shlex.quote(str(out))}",
    ]


def _describe_generation(recipe: Recipe, folder: RunFolder) -> Iterator[str]:
    config = recipe.generate
    tools = _tools(recipe, folder)
    wanted = wanted_queries(config)
    told = f"{wanted:,} queries" if wanted else "all queries of its file"
    writer = find_writer(config)
    if not writer.asks_model:
        yield f"Generation: {told} over {len(tools):,} tools, by {config.engine}. No model is called."
        if config.engine == "rules":
            # The offers are those of any engine, and wrong settings are told of here.
            forecast_generation(recipe, tools, folder)
        return
    forecast = forecast_generation(recipe, tools, folder)
    yield f"Generation: {told} over {len(tools):,} tools, by {writer.describe(config)}"
    yield from _told("calls", _calls_of_generation(forecast))
    if short := _falls_short(forecast, config):
        yield from _told("queries", short)
    if config.engine == "batch":
        yield from _told("files", _files(forecast, config, folder))
    yield from _describe_calls(forecast, config)


def _describe_judge(
    recipe: Recipe, folder: RunFolder, bank_changes: bool
) -> Iterator[str]:
    config = recipe.judge
    kind = find_judge(config)
    if kind is None:
        yield f"Judge: {config.pairs:,} pairs, by a heuristic. No model is called."
        return
    forecast = forecast_judge(recipe, folder, bank_stays=not bank_changes)
    yield f"Judge: {config.pairs:,} pairs, by {kind.describe(config)}"
    most = forecast.calls(most=True)
    criteria = len(config.criteria)
    yield from _told(
        "calls",
        f"at most {most:,}: each pair by {criteria} "
        f"{'criterion' if criteria == 1 else 'criteria'}, in both orders",
    )
    yield from _describe_calls(forecast, config)


def _describe_calls(forecast: Forecast, config: EngineConfig) -> Iterator[str]:
    held = sum(forecast.history.held(stage.stage) for stage in forecast.stages)
    if held:
        yield from _told(
            "journal", f"holds {held:,} replies already; these are not asked for again"
        )
    if held and not forecast.calls(most=True):
        return
    yield from _told("tokens", _tokens(forecast))
    yield from _told("cost", _cost(forecast, config))
    yield from _told("time", _time(forecast, config))
    for budget in _budgets(forecast, config):
        yield from _told("budget", budget)


def _calls_of_generation(forecast: Forecast) -> str:
    fewest, most = forecast.calls(most=False), forecast.calls(most=True)
    write, polish = forecast.stages
    if not most:
        share = "" if forecast.accepted is None else _accepted_share(forecast.accepted)
        return f"none, or a few{share}: the journal has as many replies as are needed"
    if forecast.accepted is None:
        return (
            f"{fewest:,} if every attempt is accepted, {most:,} if only every second one is. "
            "An attempt is a write and, where its draft passes the checks, a polish."
        )
    return (
        f"about {about(most)}: {about(write.most)} writes and {about(polish.most)} polishes"
        f"{_accepted_share(forecast.accepted)}"
    )


def _falls_short(forecast: Forecast, config: GenerateConfig) -> str:
    """Which number of queries is reached, where the attempts may not do for all; else ""."""
    wanted, limit = wanted_queries(config), most_attempts(config)
    fewest, most = forecast.reached
    if wanted is None or limit is None or fewest >= wanted:
        return ""
    if fewest == most:
        told = f"about {about(most)} of the {wanted:,} wanted are reached"
    elif most < wanted:
        told = f"at most {about(most)} of the {wanted:,} wanted are reached"
    else:
        told = f"{about(fewest)} if only every second attempt is accepted"
    return f"{told}: generate.max_attempts ends the run at {limit:,} attempts"


def _accepted_share(share: float) -> str:
    return f", if {100 * share:.0f} % of the attempts are accepted as up to now"


def _files(forecast: Forecast, config: EngineConfig, folder: RunFolder) -> str:
    from toolbank.llm.engines.batch.options import MOST_BYTES, read_options
    from toolbank.llm.engines.batch.requests import make_line

    options = read_options(config)
    lines = [
        make_line(
            request.key(""), make_body(config, request, answer_as=options.answer_as)
        )
        for request in forecast.rendered["write"]
    ]
    most = min(options.max_requests, int(MOST_BYTES / fmean(map(len, lines))))
    files = max(1, math.ceil(forecast.stages[0].fewest / most))
    bound = "" if most == options.max_requests else ", since a file may have 200 MB"
    told = f"{most:,}" if not bound else f"about {about(most)}"
    return (
        f"{files:,} a round, of at most {told} requests each{bound}, in "
        f"{folder.path / 'batch'}: first the writes, then the polishes"
    )


def _tokens(forecast: Forecast) -> str:
    low, high = (forecast.tokens(most=most) for most in (False, True))
    each = "; ".join(
        f"a {_CALL[stage.stage]} about {about(stage.prompt_tokens)} in and "
        f"{about(stage.completion_tokens)} out"
        for stage in forecast.stages
    )
    counted = (
        f"Counted on {forecast.prompts} prompts, by the tokens that the journal tells"
        if forecast.history.characters_per_token
        else f"Counted on {forecast.prompts} prompts and on answers as long as the examples', at "
        f"{CHARACTERS_PER_TOKEN:g} characters a token; models that think first write more"
    )
    return (
        f"about {span(about(low[0]), about(high[0]))} in, "
        f"{span(about(low[1]), about(high[1]))} out: {each}. {counted}."
    )


def _cost(forecast: Forecast, config: EngineConfig) -> str:
    price = resolve_price(config)
    key = f"{config.section}.price"
    if price is None and isinstance(config.price, Path):
        return f"unknown: {config.price.name} has no price of {config.model}"
    if price is None:
        return (
            f"unknown: set {key} to dollars a million tokens, such as "
            "{input: 0.15, output: 0.6}, or to a YAML file of prices by model"
        )
    low, high = (cost(price, *forecast.tokens(most=most)) for most in (False, True))
    half = ""
    if config.engine == "batch":
        half = f"; {key} has to be that of batches, which many providers do for half"
    return (
        f"about {span(dollars(low), dollars(high))}, at {rate(price.input)} a million tokens "
        f"in and {rate(price.output)} out{half}"
    )


def _time(forecast: Forecast, config: EngineConfig) -> str:
    if config.engine == "batch":
        return (
            "as long as the batches take, mostly hours and at most a day each: a round of "
            "writes, one of polishes, and two more whenever drafts were turned away"
        )
    latency = forecast.history.latency
    if config.engine == "vllm" and latency is None:
        return "that of your GPU; it is told here once there are replies"
    bounds = _bounds(forecast, config, most=False), _bounds(forecast, config, most=True)
    low, high = max(bounds[0]), max(bounds[1])
    told = f"about {span(duration(low[0]), duration(high[0]))}"
    if low[1]:
        return f"{told}, since {low[1]}"
    doubts = " (auto may find more or fewer)" if config.concurrency == "auto" else ""
    assumed = "" if latency else " (assumed until there are replies)"
    return (
        f"{told} with {_calls_at_once(config)} at once{doubts} of "
        f"{seconds(latency or _ASSUMED_SECONDS)} each{assumed}"
    )


def _bounds(
    forecast: Forecast, config: EngineConfig, *, most: bool
) -> list[tuple[float, str]]:
    """Seconds that the calls take at the least, by each of what bounds them."""
    calls, tokens = forecast.calls(most=most), sum(forecast.tokens(most=most))
    latency = forecast.history.latency or _ASSUMED_SECONDS
    bounds = [(calls * latency / _at_once(config), "")]
    if config.rpm:
        bounds.append((60 * calls / config.rpm, f"rpm is {config.rpm:,}"))
    if config.tpm:
        bounds.append((60 * tokens / config.tpm, f"tpm is {config.tpm:,}"))
    return bounds


def _at_once(config: EngineConfig) -> int:
    return _ASSUMED_AT_ONCE if config.concurrency == "auto" else config.concurrency


def _calls_at_once(config: EngineConfig) -> str:
    calls = _at_once(config)
    return "1 call" if calls == 1 else f"{calls:,} calls"


def _budgets(forecast: Forecast, config: EngineConfig) -> Iterator[str]:
    """Each budget that is set, and whether the calls fit it."""
    low, high = (_needs(forecast, config, most=most) for most in (False, True))
    spent = forecast.history.spent
    for key, limit in config.budget:
        if limit is None:
            continue
        # Minutes are those of one command.
        gone = getattr(spent, key, 0)
        left = max(0.0, limit - gone)
        if key not in low:
            told = "can't be kept, since the price is unknown"
        elif high[key] <= left:
            told = "enough"
        elif low[key] <= left:
            told = "may end the run early"
        else:
            share = 100 * left / low[key]
            told = f"too small: ends the run after {share:.0f} % of the calls"
        yield f"{limit:,g} {key}{_gone(key, gone, spent)}: {told}"


def _gone(key: str, gone: float, spent: Spent) -> str:
    amount = dollars(gone) if key == "dollars" else about(gone)
    told = f", {amount} of it spent" if gone else ""
    return f"{told}{spent.not_counted}" if key == "dollars" else told


def _needs(forecast: Forecast, config: EngineConfig, *, most: bool) -> dict[str, float]:
    """What the calls take of each budget; dollars only where the price is known."""
    tokens = forecast.tokens(most=most)
    needs = {
        "calls": float(forecast.calls(most=most)),
        "tokens": sum(tokens),
        "minutes": max(_bounds(forecast, config, most=most))[0] / 60,
    }
    price = resolve_price(config)
    return {**needs, "dollars": cost(price, *tokens)} if price else needs


def _tools(recipe: Recipe, folder: RunFolder) -> tuple[Tool, ...]:
    """The tools as they were read last from the same sources, or else read now."""
    path = folder.bank / "tools.parquet"
    if path.is_file() and is_run_folder(folder.path):
        try:
            if load_recipe(str(folder.path)).recipe.sources == recipe.sources:
                return read_tools(path)
        except InputError:
            pass
    return current_tools(recipe, folder)


def _told(label: str, text: str) -> list[str]:
    """A labelled paragraph."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
