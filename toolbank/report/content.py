"""What lies in a run folder, read for the report. Parts that are missing stay None or empty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolbank.bank.bank import Bank
from toolbank.bank.files import make_frame, read_frame
from toolbank.bank.records import AttemptRecord
from toolbank.config.explain import check, read_checked
from toolbank.evaluation import main_k
from toolbank.evaluation.evaluate import Found, read_hits
from toolbank.evaluation.figures import (
    Difference,
    Figure,
    SetLabels,
    read_differences,
    read_figures,
    read_labels,
    read_warnings,
)
from toolbank.llm.accounts import SearchCalls, StepCalls
from toolbank.report.sections import Verification
from toolbank.requests.judge.summary import CriterionSummary, LengthPart
from toolbank.retrievers.calibration_fit import (
    CalibrationRecord,
    read_calibration_record,
)
from toolbank.system.errors import InputError
from toolbank.system.secrets import without_credentials

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")


@dataclass(frozen=True)
class ReadByEye:
    """On how many pairs a heuristic was held to a reader, and on how many they disagree."""

    pairs: int
    disagree: dict[str, int]


@dataclass(frozen=True)
class Judge:
    """judge.json without its pairs; `others` are the comparisons made before the last one.

    `stale`: the bank doesn't have its requests any more.
    """

    judge: str
    heuristic: bool
    against: str
    n: int
    method: str
    criteria: dict[str, CriterionSummary]
    identical: int = 0
    read_by_eye: ReadByEye | None = None
    lengths: list[LengthPart] = field(default_factory=list)
    calls: dict[str, StepCalls] | None = None
    others: list[Judge] = field(default_factory=list)
    stale: bool = False

    @property
    def comparisons(self) -> list[Judge]:
        """All that are of the bank as it is, the last one first."""
        return [self, *(one for one in self.others if not one.stale)]


@dataclass(frozen=True)
class AskCounts:
    """What became of the asks; those that siblings share count once, `tools` are all who have some.

    `by_kind` counts by kind and how they ended.
    """

    groups: int
    tools: int
    accepted: int
    declined: int
    rejected: dict[str, int]
    failed: dict[str, int]
    by_kind: dict[str, dict[str, int]]


@dataclass(frozen=True)
class LostAsk:
    """An ask that is not there, and why."""

    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Asks:
    """asks.json."""

    engine: str
    model: str
    counts: AskCounts
    not_accepted: list[LostAsk]
    calls: dict[str, StepCalls]


@dataclass(frozen=True)
class AttemptsBySize:
    """How many attempts asked for a number of tools, and how many queries there are of it."""

    asked: int
    accepted: int


@dataclass(frozen=True)
class Content:
    """A run: its name, bank, resolved recipe, and what later stages left.

    `attempts` are the rows of attempts.parquet, if there is one. `hits` are the first of each
    query, by method: as many as Recall is told at.
    """

    name: str
    bank: Bank
    attempts: pl.DataFrame
    recipe: Mapping[str, Any]
    calls: Mapping[str, StepCalls]
    asked_numbers: Mapping[str, AttemptsBySize]
    asks: Asks | None
    judge: Judge | None
    verification: Verification | None
    searches: Mapping[str, SearchCalls]
    figures: list[Figure]
    differences: list[Difference]
    labels: list[SetLabels]
    calibration: CalibrationRecord
    warnings: list[str]
    hits: Mapping[str, list[Found]]
    models: Path

    @property
    def seed(self) -> int:
        """Of the recipe, or else of the bank."""
        return int(self.recipe.get("seed", self.bank.info.get("seed", 0)))

    def model_folders(self) -> list[Path]:
        """The fitted retrievers, in the recipe's order."""
        if not self.models.is_dir():
            return []
        listed = self.recipe.get("retrievers", ())
        order = [part.get("name") or part.get("type") for part in listed]
        folders = [path for path in self.models.iterdir() if path.is_dir()]
        known = {name: position for position, name in enumerate(order)}
        return sorted(
            (path for path in folders if not path.name.startswith(".")),
            key=lambda path: (known.get(path.name, len(known)), path.name),
        )


def read_content(run: Path) -> Content:
    """Read a run folder.

    Raises:
        InputError: there is no bank, or a file that is there is damaged.
    """
    bank = Bank.load(run / "bank")
    metrics = run / "metrics.json"
    figures = read_figures(metrics) if metrics.is_file() else []
    return Content(
        name=run.resolve().name,
        bank=bank,
        attempts=_read_if_there(
            run / "bank" / "attempts.parquet",
            read_frame,
            make_frame(AttemptRecord, ()),
        ),
        recipe=_read_recipe(run / "recipe.yaml"),
        calls=check(
            bank.info.get("calls", {}),
            dict[str, StepCalls],
            run / "bank" / "bank.json",
        ),
        asked_numbers=check(
            (bank.info.get("counts") or {}).get("tools_per_query", {}),
            dict[str, AttemptsBySize],
            run / "bank" / "bank.json",
        ),
        asks=_read_if_there(
            run / "bank" / "asks.json", lambda path: read_checked(path, Asks), None
        ),
        judge=_read_if_there(run / "judge.json", read_judge, None),
        verification=_read_if_there(
            run / "verify.json", lambda path: read_checked(path, Verification), None
        ),
        searches=_read_if_there(
            run / "searches.json",
            lambda path: read_checked(path, dict[str, SearchCalls]),
            {},
        ),
        figures=figures,
        differences=_read_if_there(run / "comparisons.json", read_differences, []),
        labels=_read_if_there(run / "labels.json", read_labels, []),
        calibration=_read_if_there(
            run / "calibration.json", read_calibration_record, CalibrationRecord()
        ),
        warnings=read_warnings(run / "warnings.json"),
        hits=_read_hits(run / "hits", figures),
        models=run / "models",
    )


def read_judge(path: Path) -> Judge:
    """Read a judge.json.

    Raises:
        InputError: it is not there, or damaged.
    """
    return read_checked(path, Judge)


def _read_if_there(path: Path, read: Callable[[Path], T], missing: T) -> T:
    return read(path) if path.is_file() else missing


def _read_hits(folder: Path, figures: Sequence[Figure]) -> dict[str, list[Found]]:
    k = main_k(figure.k for figure in figures)
    files = {path.name.removesuffix(".jsonl"): path for path in folder.glob("*.jsonl")}
    methods = dict.fromkeys(figure.retriever for figure in figures)
    return {
        method: read_hits(files[method], k)
        for method in methods
        if k and method in files
    }


def _read_recipe(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        return {}
    try:
        recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: can't be read ({error}).") from error
    if not isinstance(recipe, dict):
        raise InputError(f"{path}: not a recipe. Run the recipe again.")
    hidden: dict[str, Any] = without_credentials(recipe)
    return hidden
