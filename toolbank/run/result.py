"""What came of a run, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolbank.evaluation.tables import WIDTH
from toolbank.recipe import load_recipe
from toolbank.run.run import RunResult
from toolbank.system.files import read_json
from toolbank.system.numbers import count
from toolbank.system.terminal import command, wrap


def describe_result(result: RunResult, *, everything: bool = False) -> str:
    """What was built, how well it finds tools, what a search takes, and what to type next.

    With `everything`, all tables of the evaluation. Figures stand there if they are of this bank.
    """
    blocks = [
        result.waiting,
        "" if result.did else "Everything was done already; nothing was run.",
        _describe_bank(result),
        *_describe_figures(result, everything),
        _describe_next(result, everything),
    ]
    return "\n\n".join(filter(None, blocks))


def _describe_bank(result: RunResult) -> str:
    """What was made, by its numbers, and what of it should be mended."""
    from toolbank.bank.files import read_column, read_frame
    from toolbank.run.advice import advise

    folder = result.folder
    if not (folder.bank / "bank.json").is_file():
        has_tools = (folder.bank / "tools.parquet").is_file()
        return f"{folder.path}: {'the tools' if has_tools else 'nothing'} so far."
    tools = read_frame(folder.bank / "tools.parquet")
    counts = Counter(read_column(folder.bank / "queries.parquet", "split"))
    splits = ", ".join(
        f"{counts.get(split, 0):,} {split}" for split in ("train", "validation", "test")
    )
    told = (
        f"{count(tools.height, 'tool')}, {count(counts.total(), 'request')} ({splits})"
    )
    asks = folder.bank / "asks.parquet"
    if asks.is_file():
        told += f", {count(len(read_column(asks, 'tool')), 'ask')}"
    recipe = load_recipe(str(folder.recipe)).recipe
    info = read_json(folder.bank / "bank.json")
    if removed := info.get("removed"):
        lost = count(removed["queries_left_out"], "request")
        told += f"; {lost} left out, for want of a tool that is gone"
    advice = advise(tools, counts, info, recipe.evaluate)
    return "\n".join(
        [f"{folder.path}: {told}.", *(wrap(line, WIDTH) for line in advice)]
    )


def _describe_figures(result: RunResult, everything: bool) -> Iterator[str]:
    from toolbank.evaluation.figures import (
        read_differences,
        read_figures,
        read_labels,
        read_warnings,
    )
    from toolbank.evaluation.tables import format_details, format_notes, format_table
    from toolbank.retrievers.calibration_fit import read_calibration_record
    from toolbank.run.choice import choose_retriever

    folder = result.folder
    is_evaluated = "evaluate" in result.did and not result.waiting
    if "evaluate" in result.todo and not is_evaluated:
        return
    figures = read_figures(folder.metrics)
    yield format_table(figures)
    yield format_notes(read_labels(folder.labels))
    yield "\n".join(wrap(line, WIDTH) for line in read_warnings(folder.warnings))
    if everything:
        yield format_details(figures, read_differences(folder.comparisons))
    recipe = load_recipe(str(folder.recipe)).recipe
    choice = choose_retriever(folder, recipe.retrievers)
    yield wrap(f"A search takes {choice.label}: {choice.why}.", WIDTH)
    record = read_calibration_record(folder.calibration)
    yield "\n".join(wrap(warning, WIDTH) for warning in record.requests.warn_of_near())


def _describe_next(result: RunResult, everything: bool) -> str:
    """What is not done, and the command that goes on; or what to do with what is."""
    run = command("run", result.folder.path)
    if not result.todo:
        commands = {
            f'{command("search", result.folder.path)} "your request"': "finds tools",
            str(result.folder.report): "the page, with all figures",
            f"{run} --all": "all figures here",
        }
        if everything:
            commands.popitem()
        packing = f"{command('pack', result.folder.path)} --out finder"
        commands[f"{packing} && toolbank serve finder"] = "serves them on a page"
        width = max(map(len, commands))
        return "\n".join(
            f"  {command:<{width}}  {what}" for command, what in commands.items()
        )
    end = result.ended_early
    option = f" {end.option}" if end is not None and end.option else ""
    if end is not None:
        why = f"The calls ended early: {end.message}."
    elif result.lacks:
        left = [stage for stage in result.todo if stage not in result.did]
        why = f"Not all came: {'; '.join(result.lacks)}."
        why += f" Not done: {', '.join(left)}." if left else ""
    else:
        why = f"Not done, or of an earlier bank or recipe: {', '.join(result.todo)}."
    return f"{why}\nNext: {run}{option}"
