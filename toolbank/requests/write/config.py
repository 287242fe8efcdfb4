"""Settings of request writing: how many queries, and with how many tools each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.bank.records import Tool, group_siblings
from toolbank.config.base import Config
from toolbank.encoders import AnyEncoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import SentenceConfig
from toolbank.llm.config import ENGINE_NAME, EngineConfig
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

# No model is paid for more, and the numbers of attempts stay such as files can hold.
_MOST = 100_000_000
_ALMOST = 0.999


class ExplanationsConfig(Config):
    """Check whether explanations support their tools; the result is in `bank/explanations.json`."""

    encoder: AnyEncoder = SentenceConfig()
    within: int = Field(
        default=10,
        ge=1,
        description=(
            "a tool is supported if, for some sentence of the explanation, it is among so "
            "many nearest tools"
        ),
    )


class GenerateConfig(EngineConfig):
    """Write requests: sample tools, write a draft, check and polish it."""

    section: ClassVar[str] = "generate"
    call_steps: ClassVar[tuple[str, ...]] = ("write", "polish")

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, recorded, rules, or a plug-in",
    )
    queries: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description=(
            "number of accepted queries to reach; default: 1000, or with the engine "
            "`recorded` as many as its file has"
        ),
    )
    replies: Path | None = Field(
        default=None, description="file that `recorded` replays"
    )
    offered: int = Field(
        default=10, ge=2, description="number of tools shown in an attempt"
    )
    tools_per_query: (
        dict[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0, le=1e6)]] | None
    ) = Field(
        default=None,
        min_length=1,
        description="shares of queries by exact number of tools, such as {1: .25, 2: .75}; replaces "
        "min_tools and max_tools",
    )
    min_tools: int | None = Field(
        default=None,
        ge=1,
        description="smallest number of tools of a query; default: 2",
    )
    max_tools: int | None = Field(
        default=None, ge=1, description="largest number of tools of a query; default: 5"
    )
    examples: int = Field(default=5, ge=0, description="in-context examples")
    sampling: Literal["deck", "uniform", "related"] | None = Field(
        default=None,
        description=(
            "deck: every tool equally often; uniform: at random; related: prefer tools that"
            " belong together; default: deck, or related if the engine is `rules`"
        ),
    )
    families: bool = Field(
        default=False,
        description="sample siblings (the same method of several classes) as one tool",
    )
    separate_alternatives: bool = Field(
        default=True,
        description="do not offer tools that do nearly the same in one set; not with `uniform`",
    )
    distinct_sets: bool = Field(
        default=False,
        description=(
            "offer tools so that almost every query needs a different set of them; with "
            "`tools_per_query`, a query for one tool is offered only that tool"
        ),
    )
    weights: dict[str, Annotated[float, Field(ge=0, le=1e6)]] = Field(
        default={},
        description=(
            "how often tools are offered, by their names or the modules or classes that they are "
            "in; the longest name counts; others: 1; 0: never"
        ),
    )
    candidate_sets: Path | None = Field(
        default=None,
        description=(
            "JSONL file of the candidate sets to use in place of `sampling`, a list of tools in "
            "each line"
        ),
    )
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="largest number of attempts; default: 5 times `queries`",
    )
    instructions: str = Field(default="", description="added to the prompt")
    min_words: int = Field(default=6, ge=1, description="of a draft or query")
    max_words: int = Field(default=150, ge=1, description="of a draft or query")
    near_duplicate: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description=(
            "reject a query if the Jaccard similarity of its word 3-grams to those of "
            "another query is at least this"
        ),
    )
    explanations: ExplanationsConfig | None = Field(
        default=None,
        description="report queries if the model's explanation does not support their tools",
    )
    diverse_examples: AnyEncoder | None = Field(
        default=None,
        description="encoder that clusters the examples; a prompt shows one of each cluster",
    )

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """The encoders that shape the queries or the report on them."""
        checks = (self.explanations.encoder,) if self.explanations else ()
        return (*checks, *((self.diverse_examples,) if self.diverse_examples else ()))

    @property
    def fewest_tools(self) -> int:
        """The fewest tools of a query."""
        return min(self.tools_per_query or (self.min_tools or 2,))

    @property
    def most_tools(self) -> int:
        """The most tools of a query, M."""
        return max(self.tools_per_query or (self.max_tools or 5,))

    @property
    def is_numbered(self) -> bool:
        """Whether a query may need one tool or an exact number, which have their own prompt."""
        return self.tools_per_query is not None or self.fewest_tools == 1

    @model_validator(mode="after")
    def _ranges_hold(self) -> Self:
        fewest, most = self.fewest_tools, self.most_tools
        if self.tools_per_query and not (
            self.min_tools in (None, fewest) and self.max_tools in (None, most)
        ):
            raise ValueError(
                "tools_per_query sets the numbers of tools; remove min_tools and max_tools, or "
                f"set them to {fewest} and {most}"
            )
        if fewest > most:
            raise ValueError(f"min_tools ({fewest}) is above max_tools ({most})")
        if most > self.offered:
            key = "tools_per_query" if self.tools_per_query else "max_tools"
            raise ValueError(
                f"{key} ({most}) is above offered ({self.offered}): "
                "a query cannot use more tools than are shown"
            )
        if self.candidate_sets and (
            self.weights or self.sampling or self.families or self.distinct_sets
        ):
            raise ValueError(
                "candidate_sets replaces the sampling; remove it, or weights, sampling, families "
                "and distinct_sets"
            )
        if self.min_words > self.max_words:
            raise ValueError(
                f"min_words ({self.min_words}) is above max_words ({self.max_words})"
            )
        return self


@dataclass(frozen=True)
class Quotas:
    """How many queries of each number of tools a bank needs, and the number of each attempt.

    `number_of` returns the number of an attempt, or None past the last one. A number without a
    share has no limit.
    """

    wanted: Mapping[int, int]
    number_of: Callable[[int], int | None]

    def has_room(self, number: int, queries: int) -> bool:
        """Whether the bank needs more than these queries of a number of tools."""
        return queries < self.wanted.get(number, math.inf)


def share_out(shares: Mapping[int, float], wanted: int) -> dict[int, int]:
    """Divide a number of queries by shares, rounded by largest remainder."""
    total = sum(shares.values())
    exact = {number: wanted * shares[number] / total for number in sorted(shares)}
    counts = {number: math.floor(part) for number, part in exact.items()}
    left = wanted - sum(counts.values())
    for number in sorted(exact, key=lambda n: (counts[n] - exact[n], n))[:left]:
        counts[number] += 1
    return counts


def weigh_tools(config: GenerateConfig, tools: Sequence[Tool]) -> list[float]:
    """Return the weight of each tool.

    Raises:
        InputError: a key is neither a tool nor a module or class of one.
    """
    known: set[str] = set()
    weights = []
    for tool in tools:
        parts = tool.name.split(".")
        homes = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
        names = [tool.name, *tool.aliases, *homes]
        known.update(names)
        found = (config.weights[name] for name in names if name in config.weights)
        weights.append(next(found, 1.0))
    for key in config.weights:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise InputError(
                f"generate.weights: there is no tool, module or class {key!r}."
                f"{f' Did you mean {near[0]!r}?' if near else ''}"
            )
    return weights


def scale_weights(weights: Sequence[float], size: int) -> list[float]:
    """Scale positive weights to shares of shuffles, at most 1, so that one may fill a set."""
    least, scale = min(size, len(weights)), 1 / max(weights, default=1)
    while True:
        shares = [min(1.0, scale * weight) for weight in weights]
        if sum(shares) >= _ALMOST * least:
            return shares
        scale *= least / sum(shares)


NO_GROUP = -1


class SiblingGroups:
    """The tools of a bank in groups; with `together`, siblings are in one group.

    `members` are the positions of each group, and `group_of` is the group of each position. Tools
    of weight 0 are in none.
    """

    def __init__(
        self, tools: Sequence[Tool], weights: Sequence[float], *, together: bool
    ) -> None:
        groups = group_siblings(tools) if together else [(tool,) for tool in tools]
        positions = {tool.name: n for n, tool in enumerate(tools)}
        found = ((positions[tool.name] for tool in group) for group in groups)
        offered = ([n for n in members if weights[n]] for members in found)
        self.members = [members for members in offered if members]
        self.group_of = [NO_GROUP] * len(tools)
        for group, members in enumerate(self.members):
            for position in members:
                self.group_of[position] = group
        self._owners = [tool.name.rpartition(".")[0] for tool in tools]

    def __len__(self) -> int:
        return len(self.members)

    def choose(
        self, groups: Sequence[int], random: Random, chosen: Sequence[int] = ()
    ) -> list[int]:
        """Choose a member of each group, if possible one of a class that is already chosen from.

        `chosen` are the positions chosen before.
        """
        positions = list(chosen)
        for group in groups:
            owners = {self._owners[position] for position in positions}
            members = self.members[group]
            near = [n for n in members if self._owners[n] in owners]
            positions.append(random.choice(near or members))
        return positions[len(chosen) :]


def fit_to_tools(config: GenerateConfig, tools: Sequence[Tool]) -> GenerateConfig:
    """Limit the numbers of tools that are offered and required to those of the bank.

    Siblings count as one tool if they are sampled as one.

    Raises:
        InputError: the bank has fewer tools than any query uses.
    """
    if config.candidate_sets is not None:
        return config
    there = _count_groups(config, tools)
    if there < config.fewest_tools:
        key = "tools_per_query" if config.tools_per_query else "min_tools"
        raise InputError(
            f"generate.{key}: a query needs at least {count(config.fewest_tools, 'tool')}, but "
            f"the bank can offer only {there}. Add sources, or set a smaller number."
        )
    shares = config.tools_per_query and {
        number: share
        for number, share in config.tools_per_query.items()
        if number <= there
    }
    return config.model_copy(
        update={
            "offered": min(config.offered, there),
            "max_tools": min(config.most_tools, there),
            "tools_per_query": shares,
        }
    )


def describe_size_limits(config: GenerateConfig, tools: Sequence[Tool]) -> str:
    """Describe what `fit_to_tools` changes; "" if nothing."""
    there = _count_groups(config, tools)
    if config.offered <= there or config.candidate_sets is not None:
        return ""
    siblings = " (siblings count as one)" if there < len(tools) else ""
    fewer = f", and a query uses at most {there}" if config.most_tools > there else ""
    return (
        f"offered: {there} in place of {config.offered}, because the bank has "
        f"{count(there, 'tool')}{siblings}{fewer}"
    )


def _count_groups(config: GenerateConfig, tools: Sequence[Tool]) -> int:
    weights = weigh_tools(config, tools)
    return len(SiblingGroups(tools, weights, together=config.families))


def draw_numbers(config: GenerateConfig, seed: int, attempt: int) -> tuple[int, int]:
    """Draw the most and the fewest tools of the query of an attempt."""
    random = Random(f"{seed}:{attempt}")
    if shares := config.tools_per_query:
        numbers = sorted(shares)
        [number] = random.choices(numbers, [shares[number] for number in numbers])
        return number, number
    return random.randint(config.fewest_tools, config.most_tools), config.fewest_tools
