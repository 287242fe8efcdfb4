"""`toolbank judge`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import OutOption, SetOption, echo, find_folder
from toolbank.commands.run import print_result
from toolbank.evaluation.tables import WIDTH, Columns, lay_out
from toolbank.report.content import read_judge
from toolbank.requests.judge.summary import CriterionSummary, LengthPart, VerdictShare
from toolbank.run.recipe import load_recipe, recipe_of_dataset
from toolbank.run.run import run_recipe
from toolbank.run.stages.judge import JudgeStage
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line, wrap

_LONGEST = 60


def format_judged(path: Path) -> str:
    """A line a criterion: wins, ties and losses of the queries, and how sure that is.

    Raises:
        InputError: the file is damaged.
    """
    judged = read_judge(path)
    other = one_line(judged.against, _LONGEST)
    sentence = (
        f"Wins, ties and losses of the requests against {other}, in percent, by "
        f"{one_line(judged.judge, _LONGEST)}: {count(judged.n, 'pair')}, each in both orders, which "
        "make a tie where they disagree. In brackets 95 % intervals. p: how likely wins and losses "
        "would lie so far apart by chance (sign test)."
    )
    if judged.heuristic:
        sentence += " A heuristic, not a reader: it knows nothing of what a text means."
    return "\n\n".join(
        [
            wrap(sentence, WIDTH),
            _lay_out(judged.criteria),
            *_list_lengths(judged.lengths),
        ]
    )


def _list_lengths(parts: Sequence[LengthPart]) -> list[str]:
    """By how long the request is beside the other text; nothing where all are of one part."""
    found = [part for part in parts if part.n]
    if len(found) < 2:
        return []
    lines = [
        f"  {part.part}, n = {part.n:,} ({part.ratio:.2f} times the words): {_wins(part.criteria)}"
        for part in found
    ]
    return [
        "\n".join(["Wins by how long the request is beside the other text:", *lines])
    ]


def _wins(criteria: dict[str, CriterionSummary]) -> str:
    return ", ".join(f"{name} {_percent(one.win)}" for name, one in criteria.items())


def _lay_out(criteria: dict[str, CriterionSummary]) -> str:
    headers = ("n", "wins", "ties", "losses", "orders agree", "p")
    cells = tuple(
        (
            f"{one.n:,}",
            _with_interval(one.win),
            _percent(one.tie),
            _with_interval(one.lose),
            "-" if one.consistency is None else f"{100 * one.consistency:.0f}",
            "-" if one.p is None else f"{one.p:.2g}",
        )
        for one in criteria.values()
    )
    return lay_out(list(criteria), [Columns(headers, cells)], what="criterion")


def _with_interval(share: VerdictShare) -> str:
    if share.low is None or share.high is None:
        return "-"
    return f"{_percent(share)} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _percent(share: VerdictShare) -> str:
    return "-" if share.share is None else f"{100 * share.share:.1f}"


def judge(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="The name of a recipe that `toolbank recipes` lists, a YAML file, a run folder, or a dataset folder.",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="What to compare the requests with: `draft` (their own drafts), a run, a dataset folder, or a JSONL file.",
        ),
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(metavar="N", help="Number of pairs to judge.")
    ] = None,
    out: OutOption = None,
    settings: SetOption = None,
) -> None:
    """Compare queries with their drafts, or with another dataset."""
    given = list(settings or ())
    if against is not None:
        given.append(f"judge.against={json.dumps(against)}")
    if pairs is not None:
        given.append(f"judge.pairs={pairs}")
    place = Path(recipe)
    if place.is_file() and place.suffix in (".jsonl", ".ndjson"):
        raise InputError(
            f"{recipe}: a file of requests, which has no tools. Give it with --against, and a run or "
            "the folder of a dataset in its place."
        )
    is_dataset = place.is_dir() and not is_run_folder(place)
    loaded = (recipe_of_dataset if is_dataset else load_recipe)(recipe, given)
    kind = JudgeStage.kind
    result = run_recipe(
        loaded,
        find_folder(recipe, out, loaded.recipe.name),
        # A dataset is read in a moment; what a model writes is not begun by the way.
        start=kind if loaded.recipe.dataset is None else None,
        until=kind,
    )
    if not result.waiting:
        echo(format_judged(result.folder.judge) + "\n")
    print_result(result)
