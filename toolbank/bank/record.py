"""What every row of a bank is, and every part of one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A row, or a part of one: frozen, and of these fields only."""

    model_config = ConfigDict(frozen=True, extra="forbid")
