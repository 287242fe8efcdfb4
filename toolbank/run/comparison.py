"""Compare two banks: figures, verdicts of a judge, and what retrievers learn from them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_attempts
from toolbank.bank.records import AttemptRecord
from toolbank.config.explain import read_checked
from toolbank.evaluation.bank_measures import (
    AttemptCost,
    ComparedBank,
    Vectors,
    compare_banks,
)
from toolbank.evaluation.paired_figures import (
    FigureKind,
    PairedFigure,
    compare_figure,
    correct,
    ratio_of,
)
from toolbank.llm.accounts import cost, resolve_price
from toolbank.llm.journal import Journal
from toolbank.report.comparison import BankComparison, Downstream, JudgeFindings
from toolbank.report.sections import Verification
from toolbank.requests.judge.judge import judge_bank, sample_verdicts
from toolbank.requests.judge.summary import CriterionSummary, Verdict
from toolbank.run.assets import using_assets
from toolbank.run.candidate_sets import AttemptPairs, pair_attempts
from toolbank.run.downstream import compare_downstream
from toolbank.run.folder import RunFolder
from toolbank.run.forecast import describe_forecast, forecast_calls, read_history
from toolbank.run.recipe import RecipeFile, load_recipe
from toolbank.run.stages.judge import JudgeStage
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, ReplyPendingError
from toolbank.system.files import write_json
from toolbank.system.folders import FolderKind, is_run_folder
from toolbank.system.numbers import count
from toolbank.system.terminal import command, print_message

VERDICTS = "judge.json"
COMPARISON = FolderKind("comparison")
"""The folder of the comparison of two banks."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ComparedPlace:
    """One of the two banks: its name, place and content."""

    name: str
    path: Path
    bank: Bank

    @property
    def folder(self) -> RunFolder | None:
        """The run, if it is one."""
        return RunFolder(self.path) if is_run_folder(self.path) else None

    def hash(self) -> str:
        """Hash the tools, requests, asks and labels."""
        parts = (self.bank.tools, self.bank.queries, self.bank.asks, self.bank.labels)
        rows = [one.model_dump_json() for part in parts for one in part]
        return hashlib.sha256("\n".join(rows).encode(errors="replace")).hexdigest()


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare besides the figures of the banks.

    `on` is the file that retrievers are tested on, trained with so many `seeds`; `retrievers` names
    some of them. `judges`: the judge of `recipe` is asked. `folder` is that of the comparison.
    """

    folder: Path
    seed: int = 0
    on: Path | None = None
    seeds: int = 3
    retrievers: Sequence[str] = ()
    judges: bool = False
    recipe: RecipeFile | None = None


def compare_places(
    a: ComparedPlace,
    b: ComparedPlace,
    request: ComparisonRequest,
    embed: Callable[[Sequence[str]], Vectors] | None,
) -> BankComparison:
    """Compare two banks.

    Raises:
        InputError: a file can't be used, or a retriever can't be fitted.
        ReplyPendingError: the verdicts come in a batch.
    """
    found = pair_attempts(a.path, b.path)
    graders = [_read_verification(one) for one in (a, b)]
    names = [one.name_graders() if one else [] for one in graders]
    # Their difference could be that of the graders.
    has_labels = not all(names) or names[0] == names[1]
    sides = _make_sides(a, b, found, has_labels=has_labels)
    paired = bool(found.pairs)
    figures = compare_banks(*sides, request.seed, paired=paired, embed=embed)
    missing = [*_explain_missing(sides)]
    if not has_labels:
        by_a, by_b = (" and ".join(one) for one in names)
        missing.append(f"labels. A was graded by {by_a}, B by {by_b}.")
    elif not all(one.graded for one in sides):
        missing.append("labels. Grade both banks with `toolbank verify RUN`.")
    judge, verdicts = _judge(a, b, request, found)
    if judge is None:
        missing.append(
            "verdicts of a judge. Add --judge to ask the judge of A's recipe."
        )
    downstream: Downstream | None = None
    if request.on is None:
        missing.append(
            "what retrievers learn. Give requests of neither bank with --on FILE."
        )
    elif request.recipe is not None:
        downstream, trained = compare_downstream(
            request.recipe,
            [(one.name, one.bank) for one in (a, b)],
            request.on,
            request.seeds,
            request.retrievers,
            request.folder,
        )
        verdicts = [*trained, *verdicts]
    return BankComparison(
        a.name,
        b.name,
        request.seed,
        len(found.pairs),
        found.reason,
        (len(sides[0].queries), len(sides[1].queries)),
        correct([*verdicts, *figures]),
        judge,
        downstream,
        [
            f"Graders of {one.name}: {said}"
            for one, read in zip((a, b), graders, strict=True)
            for said in (read.describe() if read else ())
        ],
        missing,
        _compare_catalogues(a.bank, b.bank),
    )


def _read_verification(place: ComparedPlace) -> Verification | None:
    if place.folder is None or not place.folder.verified.is_file():
        return None
    return read_checked(place.folder.verified, Verification)


def _compare_catalogues(a: Bank, b: Bank) -> str:
    names, others = set(a.tool_names), set(b.tool_names)
    if names == others or not (names and others):
        return ""
    return (
        f"The catalogues differ: A has {count(len(names), 'tool')} and B {len(others):,}, of which "
        f"{len(names & others):,} are in both. So there is no verdict on coverage."
    )


def _explain_missing(sides: Sequence[ComparedBank]) -> Iterator[str]:
    if not all(one.has_attempts for one in sides):
        yield "price. Both banks must be runs."
    if not all(one.bank.tools for one in sides):
        yield "coverage and wording. Both banks need descriptions of tools."


def _make_sides(
    a: ComparedPlace, b: ComparedPlace, found: AttemptPairs, *, has_labels: bool
) -> tuple[ComparedBank, ComparedBank]:
    records: list[list[AttemptRecord]] = [
        list(one) for one in zip(*found.pairs, strict=True)
    ]
    if not records:
        for one in (a, b):
            path = one.path / "bank" / "attempts.parquet"
            records.append([*read_attempts(path)] if path.is_file() else [])
    made = []
    for place, attempts in zip((a, b), records, strict=True):
        queries = {query.id: query for query in place.bank.queries}
        units = [
            (one, queries.get(one.record.query_id or ""))
            for one in _price_attempts(place.folder, attempts)
        ]
        alone = [(None, query) for query in place.bank.queries]
        bank = place.bank if has_labels else replace(place.bank, labels=())
        made.append(ComparedBank(bank, units or alone))
    return made[0], made[1]


def _price_attempts(
    folder: RunFolder | None, attempts: Sequence[AttemptRecord]
) -> Iterator[AttemptCost]:
    """Add the tokens and dollars of each attempt, by the replies in the journal."""
    if folder is None or not folder.journal.is_file():
        yield from map(AttemptCost, attempts)
        return
    price = None
    with suppress(InputError):
        price = resolve_price(load_recipe(str(folder.recipe)).recipe.generate)
    with Journal(folder.journal, read_only=True) as journal:
        for attempt in attempts:
            replies = [journal.get(key) for key in attempt.requests]
            known = [reply for reply in replies if reply is not None]
            tokens = [
                sum(getattr(one, f"{kind}_tokens") for one in known)
                for kind in ("prompt", "completion")
            ]
            is_known = len(known) == len(replies) and bool(sum(tokens))
            yield AttemptCost(
                attempt,
                sum(tokens) if is_known else None,
                cost(price, *tokens) if price and is_known else None,
            )


@dataclass(frozen=True)
class OrderVerdicts:
    """The verdicts on a pair by one criterion: in each order, and of both."""

    query_first: Verdict | None
    query_second: Verdict | None
    verdict: Verdict | None


@dataclass(frozen=True)
class JudgedPair:
    """A pair of judge.json."""

    query_id: str
    other_id: str
    query: str
    other: str
    verdicts: dict[str, OrderVerdicts]


@dataclass(frozen=True)
class JudgedPairs:
    """What a comparison reads of a judge.json."""

    judge: str
    heuristic: bool
    criteria: dict[str, CriterionSummary]
    pairs: list[JudgedPair]
    others: list[JudgedPairs] = field(default_factory=list)


def _judge(
    a: ComparedPlace, b: ComparedPlace, request: ComparisonRequest, found: AttemptPairs
) -> tuple[JudgeFindings | None, list[PairedFigure]]:
    """The verdicts that are there, or new ones, as figures."""
    path = request.folder / VERDICTS
    if request.judges:
        write_json(path, _ask_judge(a, b, request, found))
    judged = read_checked(path, JudgedPairs) if path.is_file() else _find_verdicts(a, b)
    if judged is None:
        return None, []
    matches = found.match_requests()
    rows = [one for one in judged.pairs if one.verdicts]
    figures: list[PairedFigure] = []
    for criterion, summary in judged.criteria.items():
        kind = FigureKind("Judge", f"preferred by {criterion}", "share", "higher")
        verdicts = (row.verdicts.get(criterion) for row in rows)
        decided = [one.verdict for one in verdicts if one and one.verdict]
        of_a, of_b = (
            ratio_of(np.array([(one == side, 1) for one in decided], np.float64))
            for side in ("win", "lose")
        )
        n = len(decided)
        if n:
            figure = compare_figure(kind, of_a, of_b, (n, n), paired=True)
            # The exact sign test, as `toolbank judge` prints it.
            has_p = figure.p is not None and summary.p is not None
            figures.append(replace(figure, p=summary.p) if has_p else figure)
    both = [
        (one.query_first, one.query_second)
        for row in rows
        for one in row.verdicts.values()
        if one.query_first and one.query_second
    ]
    # A request that is shown second and loses has lost to the one shown first.
    first = [one == "win" for one, _ in both if one != "tie"]
    first += [other == "lose" for _, other in both if other != "tie"]
    findings = JudgeFindings(
        judged.judge,
        judged.heuristic,
        len(rows),
        sum(matches.get(one.query_id) == one.other_id for one in rows),
        sum(one == other for one, other in both) / len(both) if both else None,
        sum(first) / len(first) if first else None,
    )
    return findings, figures


def _ask_judge(
    a: ComparedPlace, b: ComparedPlace, request: ComparisonRequest, found: AttemptPairs
) -> dict[str, Any]:
    """Ask the judge of A's recipe, with a journal of the comparison's own."""
    if a.folder is None or request.recipe is None:
        raise InputError(
            f"--judge: {a.path} is not a run, and so has no judge. Give a run as A."
        )
    recipe = request.recipe.recipe
    config = recipe.judge.model_copy(update={"against": b.path})
    stage = JudgeStage(
        recipe.model_copy(update={"judge": config}), RunFolder(request.folder)
    )
    with using_assets(request.recipe, a.folder):
        stage.check()
        require_consent(stage.sends(), stage.name)
        if stage.engine:
            pairs = min(config.pairs, len(a.bank.queries))
            sample = sample_verdicts(config, recipe.domain_name, pairs, is_same=True)
            path = request.folder / "journal.sqlite"
            history = read_history(path, config, recipe.calls_seed, sample)
            for line in describe_forecast(forecast_calls(sample, history), config):
                print_message(line)
        with Journal(request.folder / "journal.sqlite") as journal:
            result = judge_bank(
                a.bank,
                config,
                seed=recipe.calls_seed,
                journal=journal,
                matches=found.match_requests(),
            )
    if result.waiting:
        again = command("run", request.folder)
        same = "the same `toolbank compare` command"
        raise ReplyPendingError(result.waiting.replace(again, same))
    for problem in result.problems:
        print_message(problem)
    return result.value


def _find_verdicts(a: ComparedPlace, b: ComparedPlace) -> JudgedPairs | None:
    """The verdicts of `toolbank judge A --against B`, if there are some."""
    path = a.path / VERDICTS
    if a.folder is None or not path.is_file():
        return None
    judged = read_checked(path, JudgedPairs)
    texts, others = ({query.query for query in one.bank.queries} for one in (a, b))
    for one in (judged, *judged.others):
        if one.pairs and all(
            pair.query in texts and pair.other in others for pair in one.pairs
        ):
            return one
    return None


def name_comparison(a: ComparedPlace, b: ComparedPlace) -> str:
    """Name the folder of a comparison after both banks and a hash of their content."""
    digest = hashlib.sha256(f"{a.hash()}{b.hash()}".encode()).hexdigest()
    return f"{_NO_NAME.sub('-', f'{a.name}-vs-{b.name}').strip('-.')}-{digest[:8]}"
