"""What a run will do before it does it: its calls, tokens, money and trainings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.bank.catalogue import Catalogue
from toolbank.bank.records import Query
from toolbank.bank.split import assign_splits
from toolbank.config.assets import looking_in
from toolbank.datasets.jsonl import read_labelled
from toolbank.encoders.location import locate
from toolbank.encoders.model import find_here
from toolbank.llm.engines import find_engine, find_model
from toolbank.requests.write.config import describe_fit, fit_to_tools
from toolbank.requests.write.generate import most_queries
from toolbank.run.advice import advise_before, advise_on_size
from toolbank.run.assets import note_unused
from toolbank.run.catalogue import keep_domain, read_catalogue
from toolbank.run.folder import RunFolder
from toolbank.run.forecast import (
    Forecast,
    check_prompts,
    describe_asks,
    describe_forecast,
    describe_step,
    expect_asks,
    forecast_generation,
    forecast_judge,
    forecast_searches,
    forecast_verify,
    format_paragraph,
    format_share,
    most_pairs,
)
from toolbank.run.recipe import (
    Recipe,
    RecipeFile,
    dump_recipe,
    load_recipe,
    place_replies,
)
from toolbank.run.run import (
    RecipeComparison,
    check_stages,
    compare_with_run,
    explain_todo,
)
from toolbank.run.stages import make_stages
from toolbank.run.stages.dataset import read_split
from toolbank.run.stages.sources import current_tools, has_same_sources, kept_tools
from toolbank.run.suit import note_left_out, suit_dataset
from toolbank.run.trainings import (
    describe_trainings,
    find_begun,
    plan_trainings,
    read_bank,
    trains,
)
from toolbank.system.consent import explain_missing, find_missing
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.numbers import about, count
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.bank.records import Tool


_SPLITS = ("train", "validation", "test")


def describe_dataset(recipe: Recipe) -> Iterator[str]:
    """How many tools and queries a dataset has, what of it is left out, and its splits.

    Raises:
        InputError: it can't be read.
    """
    read = read_split(recipe)
    splits = ", ".join(f"{read.splits[name]:,} {name}" for name in _SPLITS)
    yield f"Dataset: {read.describe()}: {splits}"
    yield from (f"  {line}" for line in read.describe_left_out())
    for line in advise_on_size(len(read.tools), read.splits["test"], recipe.evaluate):
        yield from format_paragraph("size", line)


def describe_searches(
    recipe: Recipe, folder: RunFolder, bank_changes: bool, bank: Bank
) -> Iterator[str]:
    """What retrievers will ask a model at most: calls, tokens, cost and time.

    `bank` has the tools and asks that there will be.

    Raises:
        InputError: the dataset, a labelled file or a prompt can't be read.
        ToolbankError: a journal is damaged.
    """
    queries = _read_queries(recipe, folder, bank_changes)
    splits = Counter[str | None](query.split for query in queries)
    if bank_changes and recipe.dataset is None:
        most = most_queries(recipe.generate) or 0
        splits = Counter(assign_splits(most, recipe.split, recipe.seed))
    splits["train"] += len(bank.asked)
    files = [q for path in recipe.evaluate.on for q in read_labelled(path).queries]
    held_out = [query for query in queries if query.split in _SPLITS[1:]]
    texts = [query.query for query in (*held_out, *files)]
    for config in recipe.retrievers:
        asked = config.asks
        if asked is None:
            continue
        built_on = any(config.label in other.needs for other in recipe.retrievers)
        used = _SPLITS if built_on and config.asks_of_train else _SPLITS[1:]
        most = sum(splits[name] for name in used) + len(files)
        splits_used = " and ".join((", ".join(used[:-1]), used[-1]))
        labelled = ", and those of evaluate.on" if files else ""
        yield (
            f"{config.label}: at most {count(most, 'request')} to "
            f"{asked.model or asked.engine}: one for each query of {splits_used}{labelled}. "
            "What was answered before is not asked again."
        )
        forecast = forecast_searches(recipe, config, asked, bank.tools, texts, most)
        yield from describe_forecast(forecast, asked)


def _read_queries(
    recipe: Recipe, folder: RunFolder, bank_changes: bool
) -> Sequence[Query]:
    """The queries of the bank that there will be, as far as they are known."""
    if not bank_changes:
        return Bank.load(folder.bank).queries
    return read_split(recipe).queries if recipe.dataset is not None else ()


def describe_verify(
    recipe: Recipe, folder: RunFolder, tools: Sequence[Tool]
) -> Iterator[str]:
    """How many calls it takes at most, and their tokens, cost and time.

    Raises:
        InputError: the prompt can't be used, or the dataset can't be read.
        ToolbankError: the journal is damaged.
    """
    config = recipe.verify
    if config is None:
        return
    kind = find_model(config)
    if kind is None or not kind.asks_model:
        yield f"Verification: by {config.engine}. No model is called."
        return
    queries = (
        most_queries(recipe.generate)
        if recipe.dataset is None
        else len(read_split(recipe).queries)
    )
    if queries is None:
        yield f"Verification: one call a query, by {kind.describe(config)}"
        return
    forecast = forecast_verify(recipe, config, folder, tools, queries)
    asked = count(queries, "query", "queries")
    calls = (
        f"at most {forecast.calls(most=True):,}: one a query, with some "
        f"{2 * config.candidates} tools in its prompt"
    )
    title = f"Verification: the labels of {asked}"
    yield from describe_step(title, config, kind, calls, forecast)


if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.requests.write.config import GenerateConfig
    from toolbank.run.stage import Stage
    from toolbank.sources.kind import Collected

    ToolReader = Callable[[], Collected]


def describe_plan(recipe: RecipeFile, out: Path, *, measure: bool = False) -> str:
    """Say which stages are to be run, what will be asked of which model, what is trained how long.

    With `measure`, ten steps are done of each training that this machine has not done yet.

    No model is called, and nothing is downloaded; whether the hub has an encoder is asked. A site
    that was not crawled yet is crawled; its pages are kept in the run folder. Tools that were read
    by the same sources are not read again.

    Raises:
        InputError: the recipe asks for what can't be, as a run would say it.
        ToolbankError: the journal is damaged.
    """
    folder = RunFolder(out)
    folder.check()
    kept = place_replies(recipe.recipe, recipe.path, folder.path)
    given = replace(recipe, recipe=keep_domain(kept, folder))
    recipe = suit_dataset(given, folder)
    stages = make_stages(recipe.recipe, folder)
    with recipe.at_work():
        comparison = compare_with_run(recipe, folder, stages)
        with looking_in(comparison.folders):
            todo = explain_todo(stages)
            if comparison.others:
                todo = {stage.name: todo.get(stage.name, "") for stage in stages}
            check_stages(recipe, stages, list(todo))
            lines = [f"{recipe.recipe.name}, in {out}"]
            lines += _note_comparison(recipe, out, comparison)
            if lost := folder.explain_lost_stamps():
                lines.append(f"  {lost}")
            lines += [
                f"  {stage.name:<24} {_describe_todo(todo.get(stage.name))}"
                for stage in stages
            ]
            lines += [
                f"  {note}" for note in note_left_out(given.recipe, recipe.recipe)
            ]
            to_run = [stage for stage in stages if stage.name in todo]
            lines += [f"  {note}" for note in note_unused(recipe.recipe, to_run)]
            lines += _list_missing_grants(to_run)
            for paragraph in _describe_stages(recipe, folder, list(todo), measure):
                lines += ["", *paragraph] if paragraph else []
    return "\n".join(lines)


def _describe_todo(why: str | None) -> str:
    """Whether a stage is done, or why it has to be run again."""
    if why is None:
        return "done"
    return f"to do again: {why}" if why else "to do"


def _describe_stages(
    file: RecipeFile, folder: RunFolder, todo: list[str], measure: bool
) -> Iterator[list[str]]:
    """A paragraph for each of the stages to do of which there is more to say."""
    recipe = file.recipe
    read = cache(partial(_read_tools, recipe, folder, file.path))
    bank_changes = "dataset" in todo or "generate" in todo
    if "dataset" in todo:
        yield list(describe_dataset(recipe))
    if "generate" in todo:
        yield list(_describe_generation(recipe, folder, read))
    if "asks" in todo:
        yield list(describe_asks(recipe, folder, _catalogue(recipe, folder, read)))
    if "judge" in todo:
        yield list(_describe_judge(recipe, folder, bank_changes))
    if "verify" in todo:
        yield list(describe_verify(recipe, folder, _bank_tools(recipe, read)))
    yield list(_describe_downloads(recipe, todo))
    yield list(_describe_trainings(recipe, folder, read, todo, bank_changes, measure))
    if "evaluate" in todo:
        yield list(_describe_searches(recipe, folder, read, todo))


def _note_comparison(
    recipe: RecipeFile, out: Path, comparison: RecipeComparison
) -> list[str]:
    """That the folder is another recipe's, or was made with other prompts or settings."""
    others = comparison.others
    if not others:
        if not comparison.changes:
            return _note_other_settings(recipe, out)
        return [
            "  The folder was made with other files than the recipe has now. A run needs --replace,",
            f"  which moves what follows from them to {out / 'replaced'}, or another --out.",
            *(
                f"    {line}"
                for change in comparison.changes
                for line in change.describe().splitlines()
            ),
            "  To go on with the run's own files:",
            f"  {command('plan', out)}",
        ]
    return [
        "  The folder holds what another recipe has made. A run needs --replace, which moves that",
        f"  to {out / 'replaced'}, or another --out.",
        *(f"    {line}" for line in others),
    ]


def _note_other_settings(recipe: RecipeFile, out: Path) -> list[str]:
    """That the folder was made with other settings than these, such as by --set."""
    if not is_run_folder(out):
        return []
    try:
        # The run's prompts are its own.
        left = load_recipe(str(out)).recipe
        left = left.model_copy(update={"prompts": recipe.recipe.prompts})
        if dump_recipe(left, out) == dump_recipe(recipe.recipe, out):
            return []
    except InputError:
        return []
    return [
        "  The folder's last run had other settings. What it would do with them:",
        f"  {command('plan', out)}",
    ]


def _list_missing_grants(stages: Sequence[Stage]) -> list[str]:
    """The grants that a run would ask for, or without a terminal be refused for."""
    wanted = {grant: stage.name for stage in stages[::-1] for grant in stage.sends()}
    if not (missing := find_missing(wanted)):
        return []
    names = ", ".join(dict.fromkeys(wanted[grant] for grant in missing))
    return [f"  {line}" for line in explain_missing(missing, names).splitlines()]


def _describe_generation(
    recipe: Recipe, folder: RunFolder, read_tools: ToolReader
) -> Iterator[str]:
    config = recipe.generate
    writer = find_engine(config)
    read = read_tools()
    tools = read.tools
    most = most_queries(config)
    queries = count(most, "query", "queries") if most else "all queries that it has"
    what = f"Generation: {queries} over {count(len(tools), 'tool')}"
    if not writer.asks_model:
        yield f"{what}, by {config.engine}. No model is called."
        yield from _describe_size(recipe, len(tools))
        yield from _notes(read)
        if writer.default_queries is not None:
            # The offers are those of any engine, and wrong settings are found here.
            check_prompts(recipe, _catalogue(recipe, folder, read_tools))
            yield from _describe_offers(config, tools)
        return
    forecast = forecast_generation(
        recipe, _catalogue(recipe, folder, read_tools), folder
    )
    notes = (
        *_describe_size(recipe, len(tools)),
        *_describe_offers(config, tools),
        *_notes(read),
    )
    calls = _calls_of_generation(forecast)
    yield from describe_step(what, config, writer, calls, forecast, notes)


def _describe_size(recipe: Recipe, tools: int) -> Iterator[str]:
    """Why the figures of so small a bank will say nothing, where it is one."""
    if most := most_queries(recipe.generate):
        for line in advise_before(recipe, tools, most):
            yield from format_paragraph("size", line)


def _describe_offers(config: GenerateConfig, tools: Sequence[Tool]) -> Iterator[str]:
    """How many tools are asked for, and what is smaller than set since the bank is."""
    if fit := describe_fit(config, tools):
        yield from format_paragraph("offered", fit.removeprefix("offered: "))
    if shares := fit_to_tools(config, tools).tools_per_query:
        total = sum(shares.values())
        parts = [f"{n} in {100 * shares[n] / total:.3g} %" for n in sorted(shares)]
        said = f"exactly {', '.join(parts)} of the queries"
        yield from format_paragraph("tools", said)


def _describe_judge(
    recipe: Recipe, folder: RunFolder, bank_changes: bool
) -> Iterator[str]:
    config = recipe.judge
    kind, pairs = find_model(config), count(most_pairs(recipe), "pair")
    if kind is None:
        yield f"Judge: {pairs}, by a heuristic. No model is called."
        return
    forecast = forecast_judge(recipe, folder, bank_stays=not bank_changes)
    criteria = len(config.criteria)
    calls = (
        f"at most {forecast.calls(most=True):,}: each pair by {criteria} "
        f"{'criterion' if criteria == 1 else 'criteria'}, in both orders"
    )
    yield from describe_step(f"Judge: {pairs}", config, kind, calls, forecast)


def _describe_trainings(
    recipe: Recipe,
    folder: RunFolder,
    read: ToolReader,
    todo: list[str],
    bank_changes: bool,
    measure: bool,
) -> Iterator[str]:
    if not trains(recipe.retrievers, todo):
        return
    generates = bank_changes and recipe.dataset is None
    tools = read().tools if generates else ()
    bank = read_bank(recipe, folder, tools, todo)
    if measure:
        from toolbank.run.time_trainings import measure_trainings

        measure_trainings(recipe, todo, bank)
    planned = plan_trainings(recipe, todo, bank)
    exact = not generates and "asks" not in todo
    begun = find_begun(recipe, todo, folder)
    yield from describe_trainings(planned, exact=exact, begun=begun)


def _describe_searches(
    recipe: Recipe, folder: RunFolder, read: ToolReader, todo: list[str]
) -> Iterator[str]:
    if not any(config.asks for config in recipe.retrievers):
        return
    asks = read_split(recipe).asks if recipe.dataset is not None else ()
    bank = Bank(tuple(_bank_tools(recipe, read)), asks=tuple(asks))
    bank = expect_asks(recipe, bank, to_write=True)
    bank_changes = "dataset" in todo or "generate" in todo
    yield from describe_searches(recipe, folder, bank_changes, bank)


def _bank_tools(recipe: Recipe, read: ToolReader) -> Sequence[Tool]:
    """The tools of the bank that there will be."""
    if recipe.dataset is not None:
        return read_split(recipe).tools
    return read().tools


def _catalogue(recipe: Recipe, folder: RunFolder, read: ToolReader) -> Catalogue:
    """The same tools, with the versions before them."""
    tools = tuple(_bank_tools(recipe, read))
    if folder.catalogue.is_dir():
        kept = read_catalogue(folder)
        if kept.tools == tools:
            return kept
    return Catalogue(tools)


def _describe_downloads(recipe: Recipe, todo: list[str]) -> Iterator[str]:
    encoders = (
        locate(encoder)
        for config in recipe.retrievers
        if f"retrievers/{config.label}" in todo
        for encoder in config.encoders
    )
    for name in dict.fromkeys(encoders):
        if find_here(name) is None:
            yield f"Encoder {name}: is not on this machine; the run downloads it"


def _calls_of_generation(forecast: Forecast) -> str:
    fewest, most = forecast.calls(most=False), forecast.calls(most=True)
    write, polish = forecast.steps
    if not most:
        share = format_share(forecast.accepted)
        return f"none, or a few{share}: the journal has as many replies as are needed"
    if forecast.accepted is None:
        return (
            f"{fewest:,} if every attempt is accepted, {most:,} if only every second one is. "
            "An attempt is a write and, where its draft passes the checks, a polish."
        )
    return (
        f"about {about(most)}: {about(write.most)} writes and {about(polish.most)} polishes"
        f"{format_share(forecast.accepted)}"
    )


def _notes(read: Collected) -> Iterator[str]:
    for note in read.notes:
        yield from format_paragraph("tools", note)


def _read_tools(recipe: Recipe, folder: RunFolder, path: Path) -> Collected:
    """The tools as they were read last from the same sources, or else read now."""
    if has_same_sources(recipe, folder):
        return kept_tools(folder)
    return current_tools(recipe, folder, path)
