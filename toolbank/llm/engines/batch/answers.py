"""What a Batch API answers, checked before any of it is used or kept."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.chat.chat import EngineError

Id = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Uploaded(_Answer):
    """An uploaded file."""

    id: Id


class Listed(_Answer):
    """A file or batch of a list; `created_at` is in seconds since 1970."""

    id: Id
    created_at: int | float
    filename: str | None = None
    status: str | None = None
    metadata: dict[str, Any] | None = None


class Counts(_Answer):
    """The requests of a batch, and those of them that are done."""

    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class Problem(_Answer):
    """Why a batch failed."""

    code: str | int | None = None
    message: str | None = None
    line: int | None = None


class Problems(_Answer):
    """All reasons why a batch failed."""

    data: list[Problem] | None = None


class Batch(_Answer):
    """A batch and how far it is."""

    id: Id
    status: Annotated[str, Field(max_length=40)]
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: Problems | None = None
    request_counts: Counts | None = None

    @property
    def problems(self) -> list[Problem]:
        """Why it failed, where the endpoint says so."""
        return (self.errors.data if self.errors else None) or []


_Model = TypeVar("_Model", bound=_Answer)


def read_answer(model: type[_Model], answer: object, url: str) -> _Model:
    """What the SDK made of an answer, which may be anything.

    Raises:
        EngineError: it is no such thing; trying again doesn't help.
    """
    if isinstance(answer, BaseModel):
        answer = answer.model_dump(warnings=False)
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise odd_answer(url, f"{key}: {first['msg']}" if key else "") from error


def odd_answer(url: str, why: str) -> EngineError:
    """The failure of a call that was answered with status 200, and not as a Batch API answers."""
    return EngineError(
        f"{url}: the answer is not that of a Batch API{f' ({why})' if why else ''}. Is `base_url` "
        "right? Without `submit` the files wait to be answered in another way.",
        reason="not-batch-api",
        fatal=True,
    )
