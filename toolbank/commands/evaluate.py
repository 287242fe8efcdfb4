"""`toolbank evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from toolbank.bank.bank import Bank
from toolbank.commands.options import AllOption, OverwriteOption, RunArgument, echo
from toolbank.config.explain import first_problem
from toolbank.evaluation import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import (
    Found,
    Measured,
    iterate_hits,
    read_hits,
    search_depth,
)
from toolbank.evaluation.figures import Figure
from toolbank.evaluation.gate import (
    TOLERANCE,
    Check,
    GateResult,
    Metric,
    Threshold,
    check_against,
    check_minima,
    find_changes,
    pair_up,
    parse_threshold,
)
from toolbank.evaluation.gate_report import format_gate, format_junit, gate_record
from toolbank.evaluation.refusals import format_refusals, list_figures
from toolbank.evaluation.sets import EvaluationSet, describe_labels, make_test_sets
from toolbank.evaluation.tables import format_details, format_notes, format_table
from toolbank.retrievers import load_retriever
from toolbank.run.assets import list_inputs, using_assets
from toolbank.run.choice import choose_retriever
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import Recipe, load_recipe
from toolbank.run.stages.evaluate import compute_figures, file_sets, measure_sets
from toolbank.run.stages.fit import FitStage
from toolbank.search.folder import is_finder
from toolbank.search.run_search import open_finder
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import json_text
from toolbank.system.folders import is_run_folder
from toolbank.system.numbers import count
from toolbank.system.outputs import check_output, write_output
from toolbank.system.terminal import advise_to_finish, command


@dataclass(frozen=True)
class RunEvaluation:
    """The tables of an evaluation for people, and the result of its gate, if there was one."""

    text: str
    gate: GateResult | None = None


@dataclass(frozen=True)
class Gate:
    """What has to hold for a retriever, and where to write the result.

    Without a `retriever`, it is the default one of `search`. `against` is a run, a file of hits, a
    finder or the folder of a retriever.
    """

    thresholds: Sequence[Threshold] = ()
    against: Path | None = None
    tolerance: float = TOLERANCE
    retriever: str = ""
    json: Path | None = None
    junit: Path | None = None


def evaluate_run(
    path: Path,
    on: Sequence[Path],
    out: Path | None,
    *,
    overwrite: bool = False,
    everything: bool = False,
    gate: Gate | None = None,
) -> RunEvaluation:
    """Evaluate a finished run's retrievers on labelled files.

    Without any, on its test split and on those of its recipe that are still there. Writes the
    records to `out` where it is given, with `overwrite` over a file that is there; gives the table
    and notes for people, with `everything` all tables, and the result of the gate.

    Raises:
        InputError: the run is not finished, a file is missing or has broken lines, or the gate names
            what is not there.
    """
    folder = open_run(path)
    file = load_recipe(str(folder.recipe))
    recipe = file.recipe
    outputs = [one for one in (out, gate and gate.json, gate and gate.junit) if one]
    inputs = [*on, *([gate.against] if gate and gate.against else [])]
    with using_assets(file, folder):
        for place, one in enumerate(outputs):
            inputs += list_inputs(recipe, folder, one)
            others = outputs[:place]
            check_output(one, [*inputs, *others], overwrite=overwrite)
        stages = FitStage.of(recipe, folder)
        _require_fitted(folder, stages)
        for stage in stages:
            require_consent(stage.sends(), stage.name)
        try:
            EvaluateConfig(on=tuple(on))
        except ValidationError as error:
            raise InputError(f"--{first_problem(error)}.") from error
        bank = Bank.load(folder.bank)
        gone = [] if on else [one for one in recipe.evaluate.on if not one.is_file()]
        there = on or [one for one in recipe.evaluate.on if one not in gone]
        of_test = [] if on else make_test_sets(bank)
        sets = [*of_test, *file_sets(bank, there)]
        # Verified labels are better than the first ones of the same requests.
        gated = of_test[-1:] or sets
        opened = _OpenGate.of(gate, folder, recipe, gated, sets) if gate else None
        measured, refusals = measure_sets(recipe, folder, sets)
        figures, differences = compute_figures(measured, recipe)
        result = opened.check(measured, figures) if opened else None
    every = (*figures, *list_figures(refusals))
    texts = {out: json_text([asdict(figure) for figure in every])}
    if gate and result:
        texts[gate.json] = json_text(gate_record(result))
        texts[gate.junit] = format_junit(result)
    for file_path, text in texts.items():
        if file_path is not None:
            write_output(file_path, text, inputs, overwrite=overwrite)
    blocks = (
        format_table(figures),
        format_refusals(refusals),
        format_notes([describe_labels(evaluated) for evaluated in sets]),
        "\n".join(f"{path}: not there, and so not evaluated on" for path in gone),
        format_details(figures, differences) if everything else "",
        f"Wrote {count(len(every), 'record')} to {out}" if out else "",
        format_gate(result) if result else "",
    )
    return RunEvaluation("\n\n".join(filter(None, blocks)), result)


@dataclass(frozen=True)
class _OpenGate:
    """A gate with the retriever and the sets that it is about, and the earlier hits."""

    gate: Gate
    run: RunFolder
    recipe: Recipe
    retriever: str
    sets: Sequence[str]
    earlier: Sequence[Found]

    @classmethod
    def of(
        cls,
        gate: Gate,
        run: RunFolder,
        recipe: Recipe,
        gated: Sequence[EvaluationSet],
        sets: Sequence[EvaluationSet],
    ) -> _OpenGate:
        """Choose the retriever, and read the earlier hits or search for those of all sets.

        Raises:
            InputError: the run has no such retriever, or the earlier one can't be read.
        """
        names = [config.label for config in recipe.retrievers]
        retriever = gate.retriever or choose_retriever(run, recipe.retrievers).label
        if retriever not in names:
            raise InputError(
                f"--retriever: {run.path} has no {retriever!r}; there are: {', '.join(names)}."
            )
        earlier: list[Found] = []
        if gate.against:
            earlier = _read_earlier(gate.against, retriever, sets, recipe.evaluate)
        names = [one.name for one in gated]
        return cls(gate, run, recipe, retriever, names, earlier)

    def check(
        self, measured: Sequence[Sequence[Measured]], figures: Sequence[Figure]
    ) -> GateResult:
        """Check the figures of the retriever.

        Raises:
            InputError: as `check_minima` and `pair_up`.
        """
        gate, config = self.gate, self.recipe.evaluate
        checks: list[Check] = [
            *check_minima(figures, gate.thresholds, self.retriever, self.sets)
        ]
        changes = []
        for name, metrics in self._metrics().items() if gate.against else ():
            [one] = (
                one
                for of_one in measured
                for one in of_one
                if one.retriever == self.retriever
                and name in one.evaluated.selections()
            )
            pairing = pair_up(one, name, self.earlier, config)
            checks += check_against(
                pairing,
                metrics,
                figures,
                against=str(gate.against),
                tolerance=gate.tolerance,
                config=config,
                seed=self.recipe.seed,
            )
            k = main_k(k for _, k in metrics) or self._main_k
            changes.append(find_changes(pairing, k, config))
        return GateResult(
            str(self.run.path),
            str(gate.against or ""),
            self.retriever,
            tuple(checks),
            tuple(changes),
        )

    @property
    def _main_k(self) -> int:
        return main_k(self.recipe.evaluate.ks) or 5

    def _metrics(self) -> dict[str, list[Metric]]:
        """The metrics of the thresholds by set, or recall at the main cut-off on the gated sets."""
        metrics: dict[str, list[Metric]] = {}
        for one in self.gate.thresholds:
            for name in [one.set] if one.set else self.sets:
                of_set = metrics.setdefault(name, [])
                of_set += [one.metric] if one.metric not in of_set else []
        return metrics or {name: [("recall", self._main_k)] for name in self.sets}


def _read_earlier(
    path: Path, label: str, sets: Sequence[EvaluationSet], config: EvaluateConfig
) -> list[Found]:
    """The hits of an earlier retriever: those of a file, or of a run, or those that it finds now.

    Raises:
        InputError: it can't be read, or has no retriever of this name.
    """
    depth = search_depth(config)
    if not path.exists():
        raise InputError(f"--against: {path}: there is no such file or folder.")
    if is_run_folder(path):
        hits = RunFolder(path).hits
        if not (hits / f"{label}.jsonl").is_file():
            names = ", ".join(sorted(one.stem for one in hits.glob("*.jsonl")))
            raise InputError(
                f"--against: {path} has no hits of {label!r}; there are: {names or 'none'}. To compare with "
                f"another retriever, give its file, such as {hits}/NAME.jsonl."
            )
        path = hits / f"{label}.jsonl"
    if path.is_file():
        if path.suffix != ".jsonl":
            raise InputError(
                f"--against: {path} has no values of single requests. Give a run, or its "
                f"hits/{label}.jsonl."
            )
        first = next(iterate_hits(path), {})
        if not {"set", "hits"} <= first.keys():
            raise InputError(
                f"--against: {path} is not a file of hits, since its lines have no `set` and "
                f"`hits`. Give an earlier run, its hits/{label}.jsonl, a finder or a retriever. To "
                "evaluate on labelled requests, give their file with --on."
            )
        return read_hits(path, depth)
    if is_finder(path):
        retriever = open_finder(path, label).retrievers[label]
    else:
        retriever = load_retriever(path)
    earlier = []
    for one in sets:
        indices, _ = retriever.search(one.queries, depth)
        hits_of = [
            tuple(retriever.tools[i] for i in row if i >= 0) for row in indices.tolist()
        ]
        earlier += [
            Found(one.name, *parts)
            for parts in zip(one.ids, one.queries, one.labels, hits_of, strict=True)
        ]
    return earlier


def _require_fitted(folder: RunFolder, stages: Sequence[FitStage]) -> None:
    again = command("run", folder.path)
    if lost := folder.explain_lost_stamps():
        raise InputError(f"{lost} by: {again}")
    for stage in stages:
        if stage.is_done:
            continue
        if harm := folder.explain_harm(stage.name):
            raise InputError(f"{harm}. Make it again: {again}")
        raise InputError(
            f"{folder.path}: {stage.name} is not fitted on this bank. "
            f"{advise_to_finish(folder.path)}"
        )


def evaluate(
    run: RunArgument,
    on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Evaluate on this JSONL file, with `query` and `tools` in each line; "
                "repeatable."
            ),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the figures to this file as JSON."),
    ] = None,
    overwrite: OverwriteOption = False,
    everything: AllOption = False,
    minima: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="METRIC@K=VALUE",
            help=(
                "Exit with 1 if this figure is lower, such as recall@5=0.80 (of the test split, or "
                "of the files of --on); SET:METRIC@K=VALUE for one set; repeatable."
            ),
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD",
            help=(
                "Exit with 1 if a figure of --min (or recall@5) is surely lower than in this earlier "
                "run, file of hits, finder or retriever, and list the requests that were lost."
            ),
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE",
            help=f"The loss that --against tolerates, from 0 to 1 (default: {TOLERANCE}).",
        ),
    ] = None,
    retriever: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Check this retriever (default: the best on the validation requests).",
        ),
    ] = "",
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the checks, and all lost and won requests, to this file as JSON.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the checks to this file as JUnit XML."
        ),
    ] = None,
) -> None:
    """Evaluate the retrievers of a finished run."""
    gate = None
    if tolerance is not None and not 0 <= tolerance <= 1:
        raise InputError(f"--tolerance: {tolerance} is not from 0 to 1.")
    if minima or against:
        thresholds = [parse_threshold(text) for text in minima or []]
        tolerated = TOLERANCE if tolerance is None else tolerance
        gate = Gate(thresholds, against, tolerated, retriever, json, junit)
    elif retriever or json or junit or tolerance is not None:
        raise InputError(
            "--retriever, --tolerance, --json and --junit need a condition: --min or --against."
        )
    result = evaluate_run(
        run, on or [], out, overwrite=overwrite, everything=everything, gate=gate
    )
    echo(result.text)
    if result.gate and (failed := result.gate.failed):
        checks = f"{len(failed):,} of {count(len(result.gate.checks), 'check')} failed"
        reasons = "; ".join(check.describe() for check in failed)
        raise ToolbankError(f"{checks}: {reasons}.")
