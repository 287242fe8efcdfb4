"""The summary of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolbank.bank.bank import read_missing
from toolbank.bank.files import read_column, read_frame
from toolbank.bank.split import format_splits
from toolbank.evaluation.figures import (
    read_differences,
    read_figures,
    read_labels,
    read_warnings,
)
from toolbank.evaluation.refusals import format_refusals, read_refusals
from toolbank.evaluation.tables import WIDTH, format_details, format_notes, format_table
from toolbank.retrievers.calibration_fit import read_calibration_record
from toolbank.run.advice import advise
from toolbank.run.choice import choose_retriever
from toolbank.run.recipe import load_recipe
from toolbank.run.run import RunResult
from toolbank.system.files import read_json
from toolbank.system.numbers import count
from toolbank.system.terminal import align, command, wrap


def describe_result(result: RunResult, *, everything: bool = False) -> str:
    """Summarise a run: its bank, its figures, the default retriever, and the next commands.

    With `everything`, include all tables of the evaluation. Figures of an earlier bank are omitted.
    """
    blocks = [
        result.waiting,
        "" if result.did else "All stages were done already.",
        _describe_bank(result),
        *_describe_figures(result, everything),
        _describe_next(result, everything),
    ]
    return "\n\n".join(filter(None, blocks))


def _describe_bank(result: RunResult) -> str:
    """Describe the bank by its numbers, and what to improve in it."""
    folder = result.folder
    if not (folder.bank / "bank.json").is_file():
        has_tools = (folder.bank / "tools.parquet").is_file()
        return f"{folder.path}: {'the tools' if has_tools else 'nothing'} so far."
    tools = read_frame(folder.bank / "tools.parquet")
    missing, fitted = read_missing(folder.bank)
    counts = Counter(read_column(folder.bank / "queries.parquet", "split"))
    counts.update(query.split for query in fitted)
    requests = f"{count(counts.total(), 'request')} ({format_splits(counts)})"
    parts = f"{count(tools.height, 'tool')}, {requests}"
    asks = folder.bank / "asks.parquet"
    if asks.is_file():
        parts += f", {count(len(read_column(asks, 'tool')), 'ask')}"
    if missing:
        parts += f", {count(len(missing), 'request')} that no tool fits"
    recipe = load_recipe(str(folder.recipe)).recipe
    info = read_json(folder.bank / "bank.json")
    if removed := info.get("removed"):
        lost = count(removed["queries_left_out"], "request")
        parts += f"; {lost} skipped, because a tool is gone"
    advice = advise(tools, counts, info, recipe.evaluate)
    return "\n".join(
        [f"{folder.path}: {parts}.", *(wrap(line, WIDTH) for line in advice)]
    )


def _describe_figures(result: RunResult, everything: bool) -> Iterator[str]:

    folder = result.folder
    is_evaluated = "evaluate" in result.did and not result.waiting
    if "evaluate" in result.todo and not is_evaluated:
        return
    figures = read_figures(folder.metrics)
    yield format_table(figures)
    yield format_refusals(read_refusals(folder.refusals))
    yield format_notes(read_labels(folder.labels))
    yield "\n".join(wrap(line, WIDTH) for line in read_warnings(folder.warnings))
    if everything:
        yield format_details(figures, read_differences(folder.comparisons))
    recipe = load_recipe(str(folder.recipe)).recipe
    choice = choose_retriever(folder, recipe.retrievers)
    yield wrap(f"`search` uses {choice.label}: {choice.why}.", WIDTH)
    record = read_calibration_record(folder.calibration)
    yield "\n".join(wrap(warning, WIDTH) for warning in record.requests.warn_of_near())


def _describe_next(result: RunResult, everything: bool) -> str:
    """Say what is not done and how to go on, or how to use the run."""
    run = command("run", result.folder.path)
    if not result.todo:
        rows = [
            (f'{command("search", result.folder.path)} "your request"', "finds tools"),
            (
                f"{command('pack', result.folder.path)} --out finder && toolbank serve finder",
                "serves a search page",
            ),
            (str(result.folder.report), "the report, with all figures"),
            (f"{run} --all", "all figures here"),
        ]
        return "\n".join(align(rows[:-1] if everything else rows, indent=2))
    end = result.ended_early
    option = f" {end.option}" if end is not None and end.option else ""
    if end is not None:
        why = f"The calls ended early: {end.message}."
    elif result.lacks:
        left = [stage for stage in result.todo if stage not in result.did]
        why = f"Incomplete: {'; '.join(result.lacks)}."
        why += f" Not done: {', '.join(left)}." if left else ""
    else:
        why = f"These stages still have to run: {', '.join(result.todo)}."
    return f"{why}\nNext: {run}{option}"
