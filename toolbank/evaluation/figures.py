"""What an evaluation comes to: the lines of metrics.json, comparisons.json and labels.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from toolbank.config.explain import read_checked
from toolbank.system.files import write_json

Opponent = Literal["first stage", "nearest neighbours", "descriptions", "decomposition"]

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Points = Annotated[float, Field(ge=-1, le=1)]
_CutOff = Annotated[int, Field(ge=1)] | None


@dataclass(frozen=True)
class Figure:
    """How good a retriever is on a set by one metric: recall, ndcg, comp or mrr, at a cut-off k.

    Where the bank has twins, recall_or_twin is beside recall (`toolbank.bank.ranking`).
    `value` is the mean over `n` queries, from 0 to 1; `low` and `high` are the ends of its 95 %
    interval (`mean_intervals`), both None where n is too small for one. `value` is None where the
    set is empty, and `k` is None for mrr.
    """

    retriever: str
    set: str
    metric: str
    k: _CutOff
    value: _Share | None
    low: _Share | None
    high: _Share | None
    n: _Count

    def __post_init__(self) -> None:
        if (self.value is None) != (self.n == 0):
            raise ValueError("value is a number where n is not 0")
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high are numbers, or neither is")
        if self.value is None and self.low is not None:
            raise ValueError("low and high are of a value")


@dataclass(frozen=True)
class Difference:
    """How much better a retriever is than another, of the kind `baseline`, on the same queries.

    `difference` is positive where it is better; `low` and `high` are the ends of its 95 % interval
    (`difference_intervals`), both None where n is too small for one.
    """

    retriever: str
    against: str
    baseline: Opponent
    set: str
    metric: str
    k: _CutOff
    difference: _Points
    low: _Points | None
    high: _Points | None
    n: _Count

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high are numbers, or neither is")

    @property
    def is_sure(self) -> bool:
        """Whether there is an interval, and it leaves out 0."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class SetLabels:
    """What of a set's labels could not count.

    `unknown` says how often each name that the bank lacks is asked for; `refusals` counts lines of
    a file that need no tool and are left out.
    """

    set: str
    n: _Count
    unknown: dict[str, _Count]
    refusals: _Count = 0


def write_figures(
    path: Path, figures: Sequence[Figure | Difference | SetLabels]
) -> None:
    """Write figures as a JSON list of objects, atomically."""
    write_json(path, [asdict(figure) for figure in figures])


def read_figures(path: Path) -> list[Figure]:
    """Read a metrics.json or validation.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[Figure])


def read_differences(path: Path) -> list[Difference]:
    """Read a comparisons.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[Difference])


def read_labels(path: Path) -> list[SetLabels]:
    """Read a labels.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[SetLabels])


def read_warnings(path: Path) -> list[str]:
    """Read a warnings.json; runs of earlier versions have none.

    Raises:
        InputError: the file is damaged.
    """
    return read_checked(path, list[str]) if path.is_file() else []
