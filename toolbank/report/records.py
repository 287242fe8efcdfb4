"""What the evaluation and the judge leave, checked before the page is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from toolbank.system.errors import InputError
from toolbank.system.files import read_json

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]

T = TypeVar("T")


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _Metric(_Part):
    retriever: str
    set: str
    metric: str
    k: Annotated[int, Field(ge=1)] | None


class _Measured(_Metric):
    n: Annotated[int, Field(ge=1)]
    value: _Share
    low: _Share
    high: _Share


class _NothingMeasured(_Metric):
    n: Literal[0]
    value: None
    low: None
    high: None


_Points = Annotated[float, Field(ge=-1, le=1)]


class _Compared(_Metric):
    against: str
    baseline: Literal[
        "first stage", "nearest neighbours", "descriptions", "decomposition"
    ]
    n: Annotated[int, Field(ge=1)]
    difference: _Points
    low: _Points
    high: _Points


class _Labels(_Part):
    set: str
    unknown: dict[str, _Count]


class _Outcome(_Part):
    count: _Count
    share: _Share
    low: _Share
    high: _Share


class _Criterion(_Part):
    n: Annotated[int, Field(ge=1)]
    win: _Outcome
    tie: _Outcome
    lose: _Outcome
    consistency: _Share
    failed: dict[str, _Count]


class _NothingJudged(_Part):
    n: Literal[0]
    failed: dict[str, _Count]


class _ReadByEye(_Part):
    pairs: _Count
    disagree: dict[str, _Count]


_Tokens = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0)]


class _Calls(_Part):
    replies: _Tokens
    prompt_tokens: _Tokens
    completion_tokens: _Tokens
    dollars: _Amount | None
    failed_tries: dict[str, _Tokens]
    latency_s: dict[str, _Amount]


class _Judged(_Part):
    judge: str
    heuristic: bool
    against: str
    n: _Count
    method: str
    criteria: dict[str, _Criterion | _NothingJudged]
    read_by_eye: _ReadByEye | None = None
    calls: dict[str, _Calls] | None = None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read metrics.json; empty where there is none.

    Raises:
        InputError: the file is damaged.
    """
    return _read(path, TypeAdapter(list[_Measured | _NothingMeasured]), [])


def read_comparisons(path: Path) -> list[dict[str, Any]]:
    """Read comparisons.json; empty where there is none.

    Raises:
        InputError: the file is damaged.
    """
    return _read(path, TypeAdapter(list[_Compared]), [])


def read_labels(path: Path) -> list[dict[str, Any]]:
    """Read labels.json; empty where there is none.

    Raises:
        InputError: the file is damaged.
    """
    return _read(path, TypeAdapter(list[_Labels]), [])


def read_judged(path: Path) -> dict[str, Any] | None:
    """Read judge.json; None where there is none.

    Raises:
        InputError: the file is damaged.
    """
    return _read(path, TypeAdapter(_Judged), None)


def check_calls(calls: T, path: Path) -> T:
    """The `calls` of the bank.json at `path`, as they are.

    Raises:
        InputError: the file is damaged.
    """
    return _check(path, TypeAdapter(dict[str, _Calls]), calls)


def _read(path: Path, kind: TypeAdapter[Any], missing: T) -> T:
    return _check(path, kind, read_json(path)) if path.is_file() else missing


def _check(path: Path, kind: TypeAdapter[Any], content: T) -> T:
    try:
        kind.validate_python(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise InputError(
            f"{path}: not the file that a run leaves ({where + ': ' if where else ''}"
            f"{problem['msg']}). Delete it and run again."
        ) from error
    return content
