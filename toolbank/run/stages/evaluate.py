"""The stage that evaluates the retrievers of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import PROFILE, Bank
from toolbank.bank.split import assign_splits
from toolbank.config.base import shape
from toolbank.datasets.jsonl import read_labelled
from toolbank.evaluation import CLASS_NAMES
from toolbank.evaluation.evaluate import (
    Measured,
    compare,
    make_figures,
    measure,
    search_depth,
    write_hits,
)
from toolbank.evaluation.figures import Difference, Figure, write_figures
from toolbank.evaluation.refusals import (
    RefusalFigures,
    measure_refusals,
    write_refusals,
)
from toolbank.evaluation.sets import (
    EvaluationSet,
    describe_labels,
    make_set,
    make_test_sets,
)
from toolbank.llm.engines import has_copied_wording
from toolbank.llm.step import SAMPLE_SIZE, SampleCalls, StepSample
from toolbank.requests.write.prompts import sample_drafts
from toolbank.retrievers.calibration_fit import (
    CalibrationQuality,
    fit_calibration,
    measure_calibration,
    write_calibration,
)
from toolbank.retrievers.calibration_requests import (
    CalibrationRequests,
    TrainRequests,
    choose_requests,
    find_plain_encoder,
)
from toolbank.run.advice import warn_of_setbacks
from toolbank.run.fit import load_fitted
from toolbank.run.forecast import describe_forecast, forecast_calls, read_history
from toolbank.run.outlook import Outlook, expect_asks
from toolbank.run.stage import (
    Outcome,
    Stage,
    bank_hashes,
    files_read,
    hash_file,
    label_hashes,
    missing_hashes,
    model_hashes,
    write_searches,
)
from toolbank.system.errors import InputError, ReplyPendingError
from toolbank.system.extras import naming_extras
from toolbank.system.files import write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Query
    from toolbank.evaluation import EvaluateConfig
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.calibration import Calibration
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe
    from toolbank.system.consent import Grant

# What the stage leaves; another number makes all be evaluated again.
_LAYOUT = 9


class EvaluateStage(Stage):
    """Evaluates every retriever on the test split and the labelled files."""

    kind = "evaluate"
    needs = ("missing", "retrievers", "profile")

    def depends(self) -> dict[str, Any]:
        """What the figures follow from."""
        recipe, folder = self.recipe, self.folder
        return {
            "layout": _LAYOUT,
            "bank": bank_hashes(folder, recipe),
            **label_hashes(folder, recipe),
            **missing_hashes(folder, recipe),
            "profile": hash_file(folder.bank / PROFILE),
            "models": model_hashes(recipe, folder),
            "files": [files_read(config, recipe) for config in recipe.retrievers],
            "config": shape(recipe.evaluate),
            "on": [[path.stem, hash_file(path)] for path in recipe.evaluate.on],
            "seed": recipe.seed,
            "toolbank": __version__,
        }

    def sends(self) -> tuple[Grant, ...]:
        """The keys of models that retrievers ask when they search."""
        from toolbank.run.stages.fit import FitStage

        stages = FitStage.of(self.recipe, self.folder)
        return tuple(grant for stage in stages for grant in stage.sends())

    def work(self) -> Outcome:
        """Search with every retriever, and write what is found and the figures."""
        recipe, folder = self.recipe, self.folder
        bank = Bank.load(folder.bank)
        sets = [*make_test_sets(bank), *file_sets(bank, recipe.evaluate.on)]
        requests = choose_calibration_requests(bank, recipe.evaluate.on)
        validation = make_set("validation", bank, bank.split("validation"))
        found: list[list[Measured]] = []
        calibrated: list[CalibrationQuality] = []
        refusals: list[RefusalFigures] = []
        try:
            for retriever in _load_all(recipe, folder):
                found.append(_measure(retriever, [validation, *sets], recipe.evaluate))
                calibration = _calibrate(retriever, bank, requests)
                refusals += _measure_refusals(retriever, sets, calibration, requests)
                quality = measure_calibration(retriever, bank, requests, calibration)
                calibrated += [] if quality is None else [quality]
        except ReplyPendingError as waiting:
            return Outcome("waits for replies", (), waiting=str(waiting))
        chosen_by = _make_figures([of_one[:1] for of_one in found], recipe)
        measured = [of_one[1:] for of_one in found]
        figures, differences = compute_figures(measured, recipe)
        write_figures(folder.validation, chosen_by)
        write_figures(folder.metrics, figures)
        write_figures(folder.comparisons, differences)
        write_figures(folder.labels, [describe_labels(evaluated) for evaluated in sets])
        write_calibration(folder.calibration, requests, calibrated)
        write_refusals(folder.refusals, refusals)
        warnings = warn_of_setbacks(chosen_by, recipe.retrievers, bank, recipe.seed)
        write_json(folder.warnings, warnings)
        folder.clear(folder.hits)
        files = [folder.metrics, folder.comparisons, folder.labels, folder.validation]
        files += [folder.calibration, folder.warnings]
        for of_one in measured:
            files.append(folder.hits / f"{of_one[0].retriever}.jsonl")
            write_hits(files[-1], of_one)
        write_searches(recipe, folder)
        files += [p for p in (folder.searches, folder.refusals) if p.is_file()]
        sizes = ", ".join(
            f"{name} ({len(rows)})"
            for evaluated in sets
            for name, rows in evaluated.selections().items()
            if name not in CLASS_NAMES
        )
        return Outcome(sizes, tuple(files))

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """What retrievers will ask a model at most: calls, tokens, cost and time."""
        recipe = self.recipe
        asking = [(config, config.asks) for config in recipe.retrievers if config.asks]
        if not asking:
            return
        files = [q for path in recipe.evaluate.on for q in read_labelled(path).queries]
        queries, splits = self._expect_queries(outlook)
        held_out = [query for query in queries if query.split in ("validation", "test")]
        texts = [query.query for query in (*held_out, *files)][:SAMPLE_SIZE] or [
            draft.draft for draft in sample_drafts(recipe.domain_name)[:SAMPLE_SIZE]
        ]
        for config, asked in asking:
            built_on = any(config.label in other.needs for other in recipe.retrievers)
            with_train = built_on and config.asks_of_train
            used = [*(["train"] if with_train else []), "validation", "test"]
            most = sum(splits[name] for name in used) + len(files)
            splits_used = " and ".join((", ".join(used[:-1]), used[-1]))
            labelled = ", and those of evaluate.on" if files else ""
            yield (
                f"{config.label}: at most {count(most, 'request')} to "
                f"{asked.model or asked.engine}: one for each query of {splits_used}{labelled}. "
                "What was answered before is not asked again."
            )
            requests, answers = config.sample_calls(outlook.given.tools, texts)
            calls = SampleCalls(asked.call_steps[0], requests, answers)
            sample = StepSample(most, (calls,), requests)
            history = read_history(asked.known_replies, asked, recipe.seed, sample)
            yield from describe_forecast(forecast_calls(sample, history), asked)

    def _expect_queries(
        self, outlook: Outlook
    ) -> tuple[Sequence[Query], Counter[str | None]]:
        """The queries that there will be, as far as they are known, and how many of each split.

        Those of training include the asks.
        """
        recipe, given = self.recipe, outlook.given
        queries = given.queries
        if not outlook.bank_changes:
            queries = Bank.load(self.folder.bank).queries
        splits = Counter[str | None](query.split for query in queries)
        if outlook.bank_changes and recipe.dataset is None:
            most = outlook.most_queries or 0
            splits = Counter(assign_splits(most, recipe.split, recipe.seed))
        with_asks = expect_asks(recipe, replace(given, queries=()), to_write=True)
        splits["train"] += len(with_asks.asked)
        return queries, splits

    def files(self) -> tuple[Path, ...]:
        """The labelled files."""
        return self.recipe.evaluate.on

    def refresh(self) -> tuple[Path, ...]:
        """The calls in searches.json."""
        return write_searches(self.recipe, self.folder)


def measure_sets(
    recipe: Recipe, folder: RunFolder, sets: Sequence[EvaluationSet]
) -> tuple[list[list[Measured]], list[RefusalFigures]]:
    """Measure a run's retrievers on these sets: for each retriever one result per set, and refusals."""
    bank = Bank.load(folder.bank)
    requests = CalibrationRequests(reason="no set has requests that no tool fits")
    if any(one.missing for one in sets):
        requests = choose_calibration_requests(bank, recipe.evaluate.on)
    measured: list[list[Measured]] = []
    refusals: list[RefusalFigures] = []
    for retriever in _load_all(recipe, folder):
        measured.append(_measure(retriever, sets, recipe.evaluate))
        calibration = _calibrate(retriever, bank, requests)
        refusals += _measure_refusals(retriever, sets, calibration, requests)
    return measured, refusals


def file_sets(bank: Bank, paths: Sequence[Path]) -> list[EvaluationSet]:
    """A set for every labelled file.

    Raises:
        InputError: a file is missing or broken, or none of its labels is a tool of the bank.
    """
    sets = []
    for path in paths:
        file = read_labelled(path)
        labels = [name for query in file.queries for name in query.tools]
        if not (labels or file.missing):
            raise InputError(
                f"{path}: no line has tools, so that there is nothing to evaluate. Of a log of "
                "`toolbank serve` choices have, once something was chosen."
            )
        if labels and not any(name in bank.index for name in labels):
            example = f", such as {labels[0]}"
            raise InputError(
                f"{path}: none of its {count(len(labels), 'label')} is a tool of this bank{example}. "
                f"The bank's names look like {bank.tools[0].name}."
            )
        sets.append(
            make_set(file.name, bank, file.queries, file.refusals, missing=file.missing)
        )
    return sets


def _load_all(recipe: Recipe, folder: RunFolder) -> Iterator[Retriever]:
    """Each retriever; one of them is in memory at a time."""
    from tqdm import tqdm

    configs = tqdm(recipe.retrievers, "evaluate", unit="retriever", disable=None)
    for config in configs:
        yield load_fitted(recipe, folder, config.label)


def choose_calibration_requests(
    bank: Bank, paths: Sequence[Path]
) -> CalibrationRequests:
    """The requests that a bank's retrievers are calibrated on; `paths` are those of evaluate.on.

    Raises:
        InputError: a file that is there is broken.
    """
    return choose_requests(
        bank,
        [read_labelled(path) for path in paths if path.is_file()],
        TrainRequests(bank, find_plain_encoder),
        copied=has_copied_wording(bank.info),
        unreadable=[str(path) for path in paths if not path.is_file()],
    )


def _calibrate(
    retriever: Retriever, bank: Bank, requests: CalibrationRequests
) -> Calibration | None:
    """Calibrate a retriever, if that is possible without asking a model."""
    if retriever.config.asks or requests.reason:
        return None
    with naming_extras():
        return fit_calibration(
            retriever, bank, requests.queries, missing=requests.missing
        )


def _measure_refusals(
    retriever: Retriever,
    sets: Sequence[EvaluationSet],
    calibration: Calibration | None,
    requests: CalibrationRequests,
) -> list[RefusalFigures]:
    """Measure the refusals on each set that has requests that no tool fits."""
    if retriever.config.asks:
        return []
    learned = frozenset(requests.missing)
    with naming_extras():
        figures = [
            measure_refusals(retriever, one, calibration, learned) for one in sets
        ]
    return [one for one in figures if one is not None]


def _measure(
    retriever: Retriever, sets: Sequence[EvaluationSet], config: EvaluateConfig
) -> list[Measured]:
    import numpy as np

    with naming_extras():
        if not retriever.config.asks:
            return [measure(retriever, one, config) for one in sets]
        # About all sets at once: a model that answers in rounds takes one.
        queries = [query for one in sets for query in one.queries]
        ends = np.cumsum([len(one.queries) for one in sets[:-1]])
        indices, scores = retriever.search(queries, search_depth(config))
    hits = zip(np.split(indices, ends), np.split(scores, ends), strict=True)
    return [
        measure(retriever, one, config, found)
        for one, found in zip(sets, hits, strict=True)
    ]


def compute_figures(
    measured: Sequence[Sequence[Measured]], recipe: Recipe
) -> tuple[list[Figure], list[Difference]]:
    """Compute the figures of what `measure_sets` returned, and of their differences."""
    differences = [
        difference
        for on_one in zip(*measured, strict=True)
        for difference in compare(
            on_one, recipe.retrievers, recipe.evaluate, recipe.seed
        )
    ]
    return _make_figures(measured, recipe), differences


def _make_figures(
    measured: Sequence[Sequence[Measured]], recipe: Recipe
) -> list[Figure]:

    return [
        figure
        for of_one in measured
        for one in of_one
        for figure in make_figures(one, recipe.evaluate, recipe.seed)
    ]
