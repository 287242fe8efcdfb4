"""Settings of asks, the queries that need a single tool."""

from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar, Literal, get_args

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

Kind = Literal["plain", "voiced", "terse", "larger"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""All kinds of asks, in the order of files."""

_MOST = 40
FEWEST_WORDS = 6


class AsksConfig(EngineConfig):
    """Generate queries for single tools, one call per tool. Without this section, none are generated."""

    section: ClassVar[str] = "asks"
    call_steps: ClassVar[tuple[str, ...]] = ("ask",)

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, recorded, rules, or a plug-in",
    )
    per_tool: int = Field(
        default=4, ge=1, le=_MOST, description="asks per tool; the kinds take turns"
    )
    kinds: tuple[Kind, ...] = Field(
        default=KINDS,
        min_length=1,
        description=(
            "plain: in a concrete situation; voiced: in the words of another field of work;"
            " terse: typed in a hurry; larger: the tool does one part of the task"
        ),
    )
    replies: Path | None = Field(
        default=None, description="file that `recorded` replays"
    )
    neighbours: int = Field(
        default=5, ge=0, le=50, description="similar tools in a prompt"
    )
    instructions: str = Field(default="", description="added to the prompt")
    max_words: int = Field(default=150, ge=FEWEST_WORDS, description="of an ask")
    near_duplicate: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description=(
            "reject a query if the Jaccard similarity of its word 3-grams to those of "
            "another query is at least this"
        ),
    )

    @property
    def keys(self) -> dict[str, Kind]:
        """The keys of a reply, with the kind of each ask."""
        keys: dict[str, Kind] = {}
        turns: Counter[Kind] = Counter()
        for kind in islice(cycle(self.kinds), self.per_tool):
            turns[kind] += 1
            keys[f"{kind}_{turns[kind]}" if turns[kind] > 1 else kind] = kind
        return keys
