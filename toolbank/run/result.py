"""The summary of a run, and which retriever `search` uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.bank.files import read_column, read_frame
from toolbank.bank.split import format_splits
from toolbank.config.explain import read_checked
from toolbank.evaluation.figures import (
    read_differences,
    read_figures,
    read_labels,
    read_warnings,
)
from toolbank.evaluation.tables import WIDTH, format_details, format_notes, format_table
from toolbank.llm.engines import has_copied_wording
from toolbank.retrievers.calibration_fit import read_calibration_record
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.advice import advise, percent, rank_by_recall
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.run import RunResult
from toolbank.system.files import read_json
from toolbank.system.numbers import count
from toolbank.system.terminal import align, command, wrap


@dataclass(frozen=True)
class RetrieverChoice:
    """A retriever by its label, and why it was chosen."""

    label: str
    why: str


def choose_retriever(
    folder: RunFolder, fitted: Sequence[RetrieverConfig]
) -> RetrieverChoice:
    """Choose the default retriever of searches among the fitted ones.

    That is the one with the highest Recall@5 on the validation queries. Without such figures it is
    the first fusion that calls no language model, or else the first that learns tool vectors, the
    first that has some, or the first of all. If the queries copy the wording of the reference,
    lexical retrievers are chosen only if there are no others.

    Raises:
        InputError: validation.json or bank.json is damaged.
    """
    able = [config for config in fitted if not _is_lexical(config, fitted)]
    path = folder.bank / "bank.json"
    copied = path.is_file() and has_copied_wording(read_checked(path, dict[str, Any]))
    if not copied or not able or len(able) == len(fitted):
        return _choose(folder, fitted)
    choice = _choose(folder, able)
    passed = ", ".join(config.label for config in fitted if config not in able)
    return RetrieverChoice(
        choice.label,
        f"{choice.why}. Lexical retrievers ({passed}) are not considered, because the requests "
        "copy the wording of the reference, which favours them",
    )


def _is_lexical(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether it or its first stage is lexical."""
    firsts = [one for one in among if one.label in config.needs[:1]]
    return config.lexical or any(_is_lexical(one, among) for one in firsts)


def _asks_model(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether a search calls a language model, which may cost money."""
    parts = [one for one in among if one.label in config.needs]
    return config.asks is not None or any(_asks_model(one, among) for one in parts)


def _choose(folder: RunFolder, fitted: Sequence[RetrieverConfig]) -> RetrieverChoice:
    figures = read_figures(folder.validation) if folder.validation.is_file() else []
    labels = {config.label for config in fitted}
    if ranked := [one for one in rank_by_recall(figures) if one.retriever in labels]:
        best, *others = ranked
        requests = count(best.n, "validation request")
        why = f"the highest R@{best.k} on the {requests}, {percent(best)}"
        if others and others[0].value == best.value:
            why += f" as {others[0].retriever}, which is listed later"
        elif others:
            why += f" (next: {others[0].retriever}, {percent(others[0])})"
        return RetrieverChoice(best.retriever, why)
    dense = [one for one in fitted if one.has_vectors]
    choices = {
        "the first fusion": [
            one for one in fitted if one.combines and not _asks_model(one, fitted)
        ],
        "the first that learns tool vectors": [
            one for one in dense if one.needs_queries
        ],
        "the first with tool vectors": dense,
        "the first": fitted,
    }
    why, configs = next((why, found) for why, found in choices.items() if found)
    parts = f" ({', '.join(configs[0].needs)})" if configs[0].combines else ""
    reason = f"there are no validation requests to choose by, so it is {why}{parts}"
    return RetrieverChoice(configs[0].label, reason)


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
    counts = Counter(read_column(folder.bank / "queries.parquet", "split"))
    requests = f"{count(counts.total(), 'request')} ({format_splits(counts)})"
    parts = f"{count(tools.height, 'tool')}, {requests}"
    asks = folder.bank / "asks.parquet"
    if asks.is_file():
        parts += f", {count(len(read_column(asks, 'tool')), 'ask')}"
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
