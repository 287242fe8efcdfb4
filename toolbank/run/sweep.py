"""Runs of one recipe with several values and seeds, which share what they can."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.config.yaml import parse_value
from toolbank.evaluation.evaluate import read_measured
from toolbank.evaluation.figure_table import FigureTable, write_csv
from toolbank.evaluation.over_seeds import (
    MeasuredRun,
    PairedTest,
    SeedFigure,
    compare_pairs,
    summarise_seeds,
)
from toolbank.evaluation.seed_tables import make_tables
from toolbank.evaluation.sets import make_test_sets
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import NO_NAME, RecipeFile, dump_recipe, load_recipe
from toolbank.run.run import RunResult, run_recipe
from toolbank.run.stages import make_stages
from toolbank.run.stages.evaluate import file_sets
from toolbank.system.errors import InputError, InterruptedByUserError
from toolbank.system.files import read_json, write_json, write_text
from toolbank.system.folders import is_run_folder, set_aside
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message

_SEED, _BANK_SEED = "seed", "bank_seed"
_LONGEST_NAME = 100


@dataclass(frozen=True)
class SweepRun:
    """One combination of values: its recipe and its run folder.

    `setting` names all values but the seed, such as "epochs=2, frozen=true"; "" if only seeds
    differ.
    """

    setting: str
    recipe: RecipeFile
    folder: RunFolder

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.recipe.recipe.seed


@dataclass(frozen=True)
class RecipeSweep:
    """The runs of a sweep, in a folder: the seeds of a setting follow each other.

    `earlier` are runs of the recipe itself, whose replies and results count too.
    """

    name: str
    path: Path
    runs: tuple[SweepRun, ...]
    earlier: tuple[RunFolder, ...] = ()

    @property
    def seeds(self) -> list[int]:
        """The seeds of each setting."""
        return list(dict.fromkeys(run.seed for run in self.runs))


@dataclass(frozen=True)
class _Axis:
    """A key and its values by name; `typed`: the user typed them, so they are not of the file."""

    key: str
    values: Mapping[str, Any]
    typed: bool = False


def read_sweep(
    name: str,
    out: Path | None,
    settings: Sequence[str] = (),
    over: Sequence[str] = (),
) -> RecipeSweep:
    """Read a recipe, and make a run of each combination of its values under `sweep`.

    `over` has further keys and values, such as "seed=0,1,2", in place of those of the recipe. The
    folder is `out`, or else runs/NAME-sweep.

    Raises:
        InputError: no such recipe, nothing to sweep, or a combination is not a valid recipe.
    """
    base = load_recipe(name, settings)
    listed = [
        _read_axis(base.path, key, values) for key, values in base.recipe.sweep.items()
    ]
    typed = [_parse_axis(text) for text in over]
    axes = {axis.key: axis for axis in (*listed, *typed)}
    if not axes:
        raise InputError(
            f"{base.path}: it has no `sweep`. List values of keys there, such as `sweep: {{seed: "
            "[0, 1, 2]}`, or add --over seed=0,1,2."
        )
    path = out or Path("runs") / f"{base.recipe.name}-sweep"
    if is_run_folder(path):
        raise InputError(
            f"{path}: this is a run. A sweep has runs in its folder; give another --out."
        )
    runs = list(_combine(name, base, path, settings, list(axes.values())))
    _require_different(base, path, runs)
    places = dict.fromkeys([Path("runs") / base.recipe.name, base.path.parent])
    earlier = tuple(RunFolder(place) for place in places if is_run_folder(place))
    return RecipeSweep(base.recipe.name, path, tuple(runs), earlier)


def _read_axis(path: Path, key: str, values: Any) -> _Axis:
    where = f"{path}: sweep.{key}"
    if key.split(".")[0] in ("sweep", "name"):
        raise InputError(f"{where}: this key has one value. Remove it from `sweep`.")
    named = values if isinstance(values, dict) else _name_values(where, values)
    if not named:
        raise InputError(f"{where}: there is no value. List at least one.")
    return _Axis(key, named)


def _name_values(where: str, values: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for value in values:
        if isinstance(value, dict | list):
            raise InputError(
                f"{where}: {json.dumps(value)[:60]} needs a name for the run's folder. Give each "
                "value one: `{NAME: VALUE}`."
            )
        text = value if isinstance(value, str) else json.dumps(value)
        if text in named:
            raise InputError(f"{where}: {text} is listed twice. Remove one.")
        named[text] = value
    return named


def _parse_axis(text: str) -> _Axis:
    key, equals, values = text.partition("=")
    where = f"--over {text}"
    if not (key.strip() and equals and values.strip()):
        raise InputError(f"{where}: write KEY=VALUE,VALUE, such as --over seed=0,1,2.")
    axis = _read_axis(Path("--over"), key.strip(), parse_value(f"[{values}]", where))
    return _Axis(axis.key, axis.values, typed=True)


def _combine(
    name: str,
    base: RecipeFile,
    path: Path,
    settings: Sequence[str],
    axes: Sequence[_Axis],
) -> Iterator[SweepRun]:
    """Make a run of each combination, with the seeds of a setting one after another."""
    axes = sorted(axes, key=lambda axis: axis.key == _SEED)
    short = _shorten([axis.key for axis in axes])
    has_seeds = any(axis.key == _SEED for axis in axes)
    fixed: dict[str, Any] = {}
    swept = {axis.key for axis in axes}
    if has_seeds and base.recipe.bank_seed is None and _BANK_SEED not in swept:
        # Seeds of splits and training: a bank for each would have to be paid for.
        fixed[_BANK_SEED] = base.recipe.seed
    for chosen in product(*(axis.values.items() for axis in axes)):
        values, typed = dict(fixed), list(settings)
        for axis, (_, value) in zip(axes, chosen, strict=True):
            if axis.typed:
                typed.append(f"{axis.key}={json.dumps(value)}")
            else:
                values[axis.key] = value
        parts = [
            (short[axis.key], label)
            for axis, (label, _) in zip(axes, chosen, strict=True)
            if axis.key != _SEED
        ]
        setting = ", ".join(f"{key}={label}" for key, label in parts)
        try:
            recipe = load_recipe(name, typed, values)
        except InputError as error:
            said = str(error)
            if any(axis.typed for axis in axes):
                # The settings of --set were valid without the values.
                said = re.sub(r"^--set ", "--over ", said, flags=re.MULTILINE)
            labels = zip(axes, chosen, strict=True)
            whole = ", ".join(f"{short[axis.key]}={one}" for axis, (one, _) in labels)
            raise InputError(f"{said}\nThis is the combination {whole}.") from error
        names = [*("-".join(pair) for pair in parts), f"seed{recipe.recipe.seed}"]
        folder = NO_NAME.sub("-", "-".join(names)).strip("-.")
        if len(folder) > _LONGEST_NAME:
            raise InputError(
                f"{base.path}: sweep: {folder} is too long for a folder. Give the values short "
                "names: `KEY: {NAME: VALUE}`."
            )
        yield SweepRun(setting, recipe, RunFolder(path / folder))


def _shorten(keys: Sequence[str]) -> dict[str, str]:
    """Find the shortest end of each key that no other key has, such as "epochs"."""
    short: dict[str, str] = {}
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1))
        others = [f".{other}" for other in keys if other != key]
        short[key] = next(
            (end for end in ends if not any(o.endswith(f".{end}") for o in others)), key
        )
    return short


def _require_different(base: RecipeFile, path: Path, runs: Sequence[SweepRun]) -> None:
    """Refuse runs that have the same recipe or the same folder."""
    recipes: dict[str, str] = {}
    folders: set[Path] = set()
    for run in runs:
        text = dump_recipe(run.recipe.recipe)
        name = run.folder.path.name
        if text in recipes:
            raise InputError(
                f"{base.path}: the runs {recipes[text]} and {name} are the same. Remove one of "
                "the values, or the setting (--set) that replaces them."
            )
        if run.folder.path in folders:
            raise InputError(
                f"{base.path}: sweep: two values have the folder {path / name}. Give them names: "
                "`KEY: {NAME: VALUE}`."
            )
        recipes[text] = name
        folders.add(run.folder.path)


def run_sweep(sweep: RecipeSweep, until: str | None = None) -> list[RunResult]:
    """Run all runs one after another, up to a stage `until`; those that are done are skipped.

    A stage whose input is the same in another run is copied from there, and a reply to the same
    request is taken from there; runs of the recipe itself count too. Runs that wait for batches do
    not keep the others from sending theirs: all are sent before any is waited for.

    Raises:
        InputError: a run's folder holds another recipe.
        ToolbankError: a run failed; the next sweep goes on from there.
        Interrupted: the user stopped it; the message says what is kept.
    """
    folders = [*sweep.earlier, *(run.folder for run in sweep.runs)]
    results = [_run(run, folders, until, send_only=True) for run in sweep.runs]
    for place, run in enumerate(sweep.runs):
        stages = make_stages(run.recipe.recipe, run.folder)
        if results[place].waiting and any(one != one.send_only() for one in stages):
            results[place] = _run(run, folders, until, send_only=False)
    return results


def _run(
    run: SweepRun, folders: Sequence[RunFolder], until: str | None, *, send_only: bool
) -> RunResult:
    path = run.folder.path
    print_message(f"{path}:")
    others = [folder for folder in folders if folder != run.folder]
    try:
        return run_recipe(
            run.recipe, path, until=until, siblings=others, send_only=send_only
        )
    except InterruptedByUserError as error:
        raise InterruptedByUserError(f"{path}: {error}") from error


@dataclass(frozen=True)
class SweepResult:
    """What the runs of a sweep came to: figures, tests, tables, notes on them, and the files."""

    figures: tuple[SeedFigure, ...]
    tests: tuple[PairedTest, ...]
    tables: tuple[FigureTable, ...]
    notes: tuple[str, ...]
    files: tuple[Path, ...]


def summarise_sweep(sweep: RecipeSweep) -> SweepResult:
    """Read the figures of all runs, test them, and write the tables to the sweep's folder.

    Raises:
        InputError: a file of a run is missing or damaged.
    """
    runs = [_measure(run) for run in sweep.runs]
    first = sweep.runs[0].recipe.recipe
    # The tests draw the same requests for whichever seeds are listed.
    figures = list(summarise_seeds(runs, first.evaluate, seed=0))
    tests, notes = compare_pairs(runs, first.evaluate, seed=0)
    train: dict[str, int] = {}
    for setting in dict.fromkeys(run.setting for run in runs):
        counts = [run.train for run in runs if run.setting == setting]
        train[setting] = round(sum(counts) / len(counts))
    tables = make_tables(figures, tests, sweep.seeds, train)
    files = _write(sweep, figures, tests, tables, notes, train)
    return SweepResult(tuple(figures), tuple(tests), tuple(tables), tuple(notes), files)


def _measure(run: SweepRun) -> MeasuredRun:
    recipe = load_recipe(str(run.folder.path)).recipe
    bank = Bank.load(run.folder.bank)
    sets = [*make_test_sets(bank), *file_sets(bank, recipe.evaluate.on)]
    measured = [
        one
        for config in recipe.retrievers
        for one in read_measured(
            run.folder.hits / f"{config.label}.jsonl", sets, recipe.evaluate
        )
    ]
    train = len(bank.split("train"))
    return MeasuredRun(run.setting, run.seed, train, tuple(measured))


def _write(
    sweep: RecipeSweep,
    figures: Sequence[SeedFigure],
    tests: Sequence[PairedTest],
    tables: Sequence[FigureTable],
    notes: Sequence[str],
    train: Mapping[str, int],
) -> tuple[Path, ...]:
    names = ("sweep.json", "figures.csv", "tests.csv", "tables.md", "tables.tex")
    paths = tuple(sweep.path / name for name in names)
    runs = [
        {"folder": run.folder.path.name, "setting": run.setting, "seed": run.seed}
        for run in sweep.runs
    ]
    if _has_other_runs(paths[0], runs):
        aside = set_aside(sweep.path, paths)
        print_message(
            f"{sweep.path}: the tables there are of other values. They are in {aside} now."
        )
    content: dict[str, Any] = {
        "layout": 1,
        "name": sweep.name,
        "seeds": sweep.seeds,
        "runs": runs,
        "train_requests": dict(train),
        "figures": [asdict(figure) for figure in figures],
        "tests": [asdict(test) for test in tests],
        "notes": list(notes),
    }
    write_json(paths[0], content)
    texts = (
        write_csv(content["figures"]),
        write_csv(content["tests"]),
        "\n".join(table.as_markdown() for table in tables),
        "\n".join(table.as_latex() for table in tables),
    )
    for path, text in zip(paths[1:], texts, strict=True):
        write_text(path, text)
    return paths


def _has_other_runs(path: Path, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether this sweep.json is of other runs, or cannot be read."""
    if not path.exists():
        return False
    try:
        return bool(read_json(path)["runs"] != runs)
    except (InputError, KeyError, TypeError):
        return True


_MOST_ROWS = 30


def describe_sweep(result: SweepResult) -> str:
    """Describe the tables for a terminal, and list the files."""
    files = ", ".join(path.name for path in result.files)
    blocks = [table.as_text(_MOST_ROWS) for table in result.tables]
    where = f"Files in {result.files[0].parent}: {files}."
    return "\n\n".join([*blocks, *result.notes, where])


def describe_unfinished(results: Sequence[RunResult]) -> str:
    """Describe the runs that are not done: what they wait for, or lack; "" if all are."""
    blocks = []
    for result in results:
        end = result.ended_early
        why = result.waiting or (end.message if end else "; ".join(result.lacks))
        if result.todo:
            blocks.append(f"{result.folder.path}:\n{why}")
    if not blocks:
        return ""
    done = len(results) - len(blocks)
    blocks.append(
        f"{done} of {count(len(results), 'run')} are done. The table is made when all are: run the "
        "same command again."
    )
    return "\n\n".join(blocks)
