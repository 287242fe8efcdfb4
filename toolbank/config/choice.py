"""A setting that is of one of several kinds, such as a number or "auto"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Choice:
    """Beside a union: read a value as the first kind that it looks like, and as no other.

    So what is wrong inside a kind is the only error. `message` is that of a value which looks
    like none: `Annotated[Literal["auto"] | int, Choice("should be a whole number, or 'auto'")]`.
    """

    message: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A union whose tag is the position of the kind."""
        kinds = get_args(source)

        def choose(value: object) -> str | None:
            fits = (str(n) for n, kind in enumerate(kinds) if _looks_like(value, kind))
            return next(fits, None)

        return core_schema.tagged_union_schema(
            {str(n): handler.generate_schema(kind) for n, kind in enumerate(kinds)},
            choose,
            custom_error_type="choice",
            custom_error_message=self.message,
        )


def _looks_like(value: object, kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is Path:
        return isinstance(value, str | Path)
    if issubclass(kind, BaseModel):
        return isinstance(value, Mapping | kind)
    # A number may be given as text, as by `--set`.
    return isinstance(value, kind | float) or str(value).lstrip("-").isdecimal()
