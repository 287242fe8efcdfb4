"""Asks: requests for one tool at a time, a call a tool; their settings."""

from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar, Literal, get_args

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

Kind = Literal["plain", "voiced", "terse", "larger"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""All kinds of asking, in the order in which files have them."""

_MOST = 40
_FEWEST_WORDS = 6
_FEWEST_WORDS_TERSE = 3


class AsksConfig(EngineConfig):
    """Requests for each tool by itself, one call a tool; without this key there are none."""

    section: ClassVar[str] = "asks"
    call_steps: ClassVar[tuple[str, ...]] = ("ask",)

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, recorded, rules, or one that a package brings",
    )
    per_tool: int = Field(
        default=4, ge=1, le=_MOST, description="requests for a tool, the kinds in turn"
    )
    kinds: tuple[Kind, ...] = Field(
        default=KINDS,
        min_length=1,
        description="plain, out of a situation; voiced, from another field in another tone; "
        "terse, as typed in a hurry; larger, of which the tool does one part",
    )
    replies: Path | None = Field(
        default=None, description="the file that the `recorded` engine plays"
    )
    neighbours: int = Field(
        default=5, ge=0, le=50, description="nearest other tools that a prompt shows"
    )
    instructions: str = Field(default="", description="added to the prompt")
    max_words: int = Field(default=150, ge=_FEWEST_WORDS, description="of an ask")
    near_duplicate: float = Field(
        default=0.8, gt=0, le=1, description="Jaccard of word 3-grams that is too alike"
    )

    @property
    def keys(self) -> dict[str, Kind]:
        """What a reply has for a tool: the key of each ask, and its kind."""
        keys: dict[str, Kind] = {}
        turns: Counter[Kind] = Counter()
        for kind in islice(cycle(self.kinds), self.per_tool):
            turns[kind] += 1
            keys[f"{kind}_{turns[kind]}" if turns[kind] > 1 else kind] = kind
        return keys


def fewest_words(kind: Kind) -> int:
    """Of an ask of a kind."""
    return _FEWEST_WORDS_TERSE if kind == "terse" else _FEWEST_WORDS
