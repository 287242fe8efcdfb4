"""The content of a run folder for the report; missing parts are None or empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolbank.bank.bank import Bank
from toolbank.bank.files import make_frame, read_frame
from toolbank.bank.records import AttemptRecord
from toolbank.config.explain import check, read_checked
from toolbank.config.yaml import parse_mapping
from toolbank.evaluation import main_k
from toolbank.evaluation.evaluate import Found, read_hits
from toolbank.evaluation.figures import (
    Difference,
    Figure,
    SetLabels,
    read_warnings,
)
from toolbank.evaluation.refusals import RefusalFigures, read_refusals
from toolbank.llm.accounts import SearchCalls, StepCalls
from toolbank.report.sections import Verification
from toolbank.requests.judge.summary import CriterionSummary, LengthPart
from toolbank.requests.profile.copies import Copies
from toolbank.retrievers.calibration_fit import CalibrationRecord
from toolbank.system.files import read_text
from toolbank.system.secrets import without_credentials

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
M = TypeVar("M")


@dataclass(frozen=True)
class Judge:
    """judge.json without its pairs; `others` are earlier comparisons.

    It is `stale` if the bank no longer has its requests.
    """

    judge: str
    heuristic: bool
    against: str
    n: int
    method: str
    criteria: dict[str, CriterionSummary]
    identical: int = 0
    read_by_eye: dict[str, Any] | None = None
    lengths: list[LengthPart] = field(default_factory=list)
    calls: dict[str, StepCalls] | None = None
    others: list[Judge] = field(default_factory=list)
    stale: bool = False

    @property
    def comparisons(self) -> list[Judge]:
        """All comparisons of the current bank, the last one first."""
        return [self, *(one for one in self.others if not one.stale)]


@dataclass(frozen=True)
class TextCounts:
    """The outcomes of the texts for `groups` of tools.

    Of asks, also those `by_kind`, and the number of `tools` that have some; asks that siblings share
    count once.
    """

    groups: int
    accepted: int
    declined: int
    rejected: dict[str, int]
    failed: dict[str, int]
    tools: int = 0
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LostText:
    """A text that was not accepted, and why."""

    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True)
class WrittenTexts:
    """asks.json or missing.json."""

    engine: str
    model: str
    counts: TextCounts
    not_accepted: list[LostText]
    calls: dict[str, StepCalls]


@dataclass(frozen=True)
class Content:
    """A run: its name, bank, resolved recipe, and the results of later stages.

    `attempts` are the rows of attempts.parquet. `asked_numbers` counts the attempts that were asked
    for each number of tools, and those accepted. `hits` are the top k of each query by method, with
    the k of the shown recall.
    """

    name: str
    bank: Bank
    attempts: pl.DataFrame
    recipe: Mapping[str, Any]
    calls: Mapping[str, StepCalls]
    asked_numbers: Mapping[str, Mapping[str, int]]
    asks: WrittenTexts | None
    missing: WrittenTexts | None
    refusals: list[RefusalFigures]
    judge: Judge | None
    verification: Verification | None
    searches: Mapping[str, SearchCalls]
    figures: list[Figure]
    differences: list[Difference]
    labels: list[SetLabels]
    copies: Copies | None
    calibration: CalibrationRecord
    warnings: list[str]
    hits: Mapping[str, list[Found]]
    models: Path

    @property
    def seed(self) -> int:
        """The seed of the recipe, or else of the bank."""
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
    about, attempts = run / "bank" / "bank.json", run / "bank" / "attempts.parquet"
    figures = _read(run / "metrics.json", list[Figure], [])
    return Content(
        name=run.resolve().name,
        bank=bank,
        attempts=read_frame(attempts)
        if attempts.is_file()
        else make_frame(AttemptRecord, ()),
        recipe=_read_recipe(run / "recipe.yaml"),
        calls=check(bank.info.get("calls", {}), dict[str, StepCalls], about),
        asked_numbers=check(
            (bank.info.get("counts") or {}).get("tools_per_query", {}),
            dict[str, dict[str, int]],
            about,
        ),
        asks=_read(run / "bank" / "asks.json", WrittenTexts, None),
        missing=_read(run / "bank" / "missing.json", WrittenTexts, None),
        refusals=read_refusals(run / "refusals.json"),
        judge=_read(run / "judge.json", Judge, None),
        verification=_read(run / "verify.json", Verification, None),
        searches=_read(run / "searches.json", dict[str, SearchCalls], {}),
        figures=figures,
        differences=_read(run / "comparisons.json", list[Difference], []),
        labels=_read(run / "labels.json", list[SetLabels], []),
        copies=_read(run / "copies.json", Copies, None),
        calibration=_read(
            run / "calibration.json", CalibrationRecord, CalibrationRecord()
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


def _read(path: Path, kind: type[T], missing: M) -> T | M:
    return read_checked(path, kind) if path.is_file() else missing


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
    if not path.is_file():
        return {}
    recipe = parse_mapping(read_text(path), str(path))[0]
    return dict(without_credentials(recipe))
