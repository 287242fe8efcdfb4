"""Requests of many domains, as examples of what a catalogue does not serve."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILE = "background.jsonl"


@dataclass(frozen=True)
class Foreign:
    """A request for a tool of some domain."""

    domain: str
    tool: str
    query: str


def find_foreign(tools: Collection[str]) -> tuple[Foreign, ...]:
    """The requests that come along, less those of domains of which a tool is among these."""
    known = set(tools)
    every = _read()
    shared = {one.domain for one in every if one.tool in known}
    return tuple(one for one in every if one.domain not in shared)


@cache
def _read() -> tuple[Foreign, ...]:
    text = (files("toolbank.calibration") / _FILE).read_text(encoding="utf-8")
    return tuple(Foreign(**json.loads(line)) for line in text.splitlines())
