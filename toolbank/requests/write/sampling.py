"""Sample the candidate tools of each attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from random import Random
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatRequest, Offer, Offers, Rejection
from toolbank.requests.write.affinity import Affinity
from toolbank.requests.write.checks import Checker, Draft
from toolbank.requests.write.config import (
    GenerateConfig,
    SiblingGroups,
    draw_numbers,
    fit_to_tools,
    scale_weights,
    weigh_tools,
)
from toolbank.requests.write.prompts import WriterPrompts
from toolbank.system.errors import InputError
from toolbank.system.files import decode_list, iterate_lines
from toolbank.system.numbers import count

_CACHED_SHUFFLES = 4
# So many sets are left for the next shuffle before alternatives come into the same set.
_MOST_LEFT = 3
_TRIES = 64


class ShuffledSampler:
    """Sample candidate sets from shuffles without replacement.

    The sets are runs of `size` items of endless shuffles, no item twice in one. An item of share 1
    is in every shuffle, one of share 0.5 in every second. Items that `clash` come into the same set
    only if a shuffle has hardly any others left. A set depends on the arguments and its number
    alone. Only what a shuffle leaves over for the next one is stored, a few sets at most.
    """

    def __init__(
        self,
        shares: Sequence[float],
        size: int,
        seed: int,
        clash: Callable[[int, int], bool],
    ) -> None:
        self._shares = shares
        self._size = size
        self._seed = seed
        self._clash = clash
        phases = Random(f"{seed}:phases")
        self._phases = [phases.random() for _ in shares]
        self._leftovers: list[tuple[int, ...]] = [()]
        self._ends: list[int] = []
        self._sets = lru_cache(_CACHED_SHUFFLES)(self._complete)

    def sample(self, number: int) -> tuple[int, ...]:
        """Sample candidate set `number`."""
        shuffle = self.find_shuffle(number)
        first = self._ends[shuffle - 1] if shuffle else 0
        return self._sets(shuffle)[number - first]

    def find_shuffle(self, number: int) -> int:
        """Find which shuffle, counted from 0, gives candidate set `number`."""
        while not self._ends or self._ends[-1] <= number:
            self._sets(len(self._ends))
        return bisect_right(self._ends, number)

    def _complete(self, shuffle: int) -> list[tuple[int, ...]]:
        """The sets that a shuffle completes."""
        fresh = [
            item
            for item, (share, phase) in enumerate(
                zip(self._shares, self._phases, strict=True)
            )
            if int(share * (shuffle + 1) + phase) > int(share * shuffle + phase)
        ]
        Random(f"{self._seed}:deck:{shuffle}").shuffle(fresh)
        pool = [*self._leftovers[shuffle], *fresh]
        sets = []
        while places := self._choose(pool):
            sets.append(tuple(pool[place] for place in places))
            for place in sorted(places, reverse=True):
                pool.pop(place)
        if shuffle == len(self._ends):
            is_little = len(pool) < _MOST_LEFT * self._size
            self._leftovers.append(tuple(pool if is_little else dict.fromkeys(pool)))
            self._ends.append(len(sets) + (self._ends[-1] if shuffle else 0))
        return sets

    def _choose(self, pool: Sequence[int]) -> list[int]:
        """The places of the next set in what is left of a shuffle; [] if it has none."""
        chosen: list[int] = []
        passed: list[int] = []
        for place, item in enumerate(pool):
            others = [pool[one] for one in chosen]
            if item in others or any(self._clash(item, other) for other in others):
                passed.append(place)
                continue
            chosen.append(place)
            if len(chosen) == self._size:
                return chosen
        if len(pool) < _MOST_LEFT * self._size:
            return []
        items = {pool[place] for place in chosen}
        for place in passed:
            if len(chosen) < self._size and pool[place] not in items:
                items.add(pool[place])
                chosen.append(place)
        return chosen if len(chosen) == self._size else []


_RELATED = 0.6


class _GroupOffers(ABC):
    """Offers of the sibling groups of a bank, with settings that fit their number.

    With `distinct_sets`, an attempt for one tool offers a single tool, which comes from shuffles
    without replacement. `contrast` are then the tools most like it.

    Raises:
        InputError: the bank has fewer tools than a query uses, or a weight is of no tool.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        seed: int,
        affinity: Affinity,
    ) -> None:
        self._tools = tools
        weights = weigh_tools(config, tools)
        self._groups = SiblingGroups(tools, weights, together=config.families)
        self._config = fit_to_tools(config, tools)
        self._seed = seed
        self._affinity = affinity
        most = [max(weights[n] for n in members) for members in self._groups.members]
        self._shares = scale_weights(most, self._config.offered)
        shuffled = partial(ShuffledSampler, self._shares, seed=seed, clash=self._clash)
        self._first = shuffled(1)
        self._sets = shuffled(self._config.offered)
        # How many attempts for one tool are before each attempt.
        self._singles_before = array("Q", [0])

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of an attempt."""
        random = self._random("offer", attempt)
        if not (self._config.distinct_sets and self._config.tools_per_query):
            chosen = self._choose(attempt, random)
            return self._make(chosen, *self._draw_numbers(attempt, random))
        at_most, at_least = draw_numbers(self._config, self._seed, attempt)
        while len(self._singles_before) <= attempt:
            latest = len(self._singles_before) - 1
            is_single = draw_numbers(self._config, self._seed, latest)[0] == 1
            self._singles_before.append(self._singles_before[-1] + is_single)
        singles = self._singles_before[attempt]
        if at_most == 1:
            return self._offer_one(singles)
        return self._make(self._choose(attempt - singles, random), at_most, at_least)

    def _offer_one(self, number: int) -> Offer:
        """Offer one tool, and name the tools that it has to be told apart from."""
        members = self._random("single", number)
        [chosen] = self._groups.choose(self._first.sample(number), members)
        tool = self._tools[chosen]
        near = (
            self._tools[n].name
            for n, _ in self._affinity.neighbours(chosen, self._groups)
        )
        others = [name for name in near if name not in tool.twins]
        return Offer((tool.name,), 1, 1, tuple(others[: self._config.offered - 1]))

    @abstractmethod
    def _choose(self, number: int, random: Random) -> list[int]:
        """Choose the positions of the tools of candidate set `number`."""

    def _draw_numbers(self, attempt: int, random: Random) -> tuple[int, int]:  # noqa: ARG002
        return draw_numbers(self._config, self._seed, attempt)

    def _random(self, purpose: str, attempt: int) -> Random:
        return Random(f"{self._seed}:{purpose}:{attempt}")

    def _make(self, positions: Sequence[int], at_most: int, at_least: int) -> Offer:
        names = tuple(self._tools[position].name for position in positions)
        return Offer(names, at_most, at_least)

    def _clash(self, first: int, second: int) -> bool:
        """Whether the tools of two groups are alternatives, which no set should have."""
        members = self._groups.members
        return self._config.separate_alternatives and self._affinity.are_alternatives(
            members[first][0], members[second][0]
        )

    def _draw(self, random: Random, groups: Sequence[int], size: int) -> list[int]:
        """Draw groups without replacement, by their shares (Efraimidis and Spirakis, 2006)."""
        if len(set(self._shares)) == 1:
            return random.sample(groups, size)
        keys = {group: random.random() ** (1 / self._shares[group]) for group in groups}
        return sorted(groups, key=keys.__getitem__, reverse=True)[:size]


class RelatedOffers(_GroupOffers):
    """Offer tools that are likely to be needed together.

    The first tool comes from shuffles without replacement, so each sibling group is offered equally
    often. More than half of the others are related to it, drawn by their affinity; the rest is
    random. An offer depends on the tools, the configuration, the seed and its number alone.

    With `distinct_sets`, no other tool is offered twice with the same first tool, and of two tools
    only one has the other as its partner. The sets that have the first tool then differ, until all
    partners of a tool were offered with it.
    """

    def _choose(self, number: int, random: Random) -> list[int]:
        groups, size = self._groups, self._config.offered
        members = self._random("member", number)
        used = list(self._first.sample(number))
        chosen = groups.choose(used, members)
        neighbours = self._affinity.neighbours(chosen[0], groups)
        n_related = round(_RELATED * size)
        if self._config.distinct_sets:
            turn = self._first.find_shuffle(number)
            neighbours = self._take_turn(used[0], neighbours, turn, n_related)
        while len(chosen) <= min(n_related, size - 1):
            neighbours = [
                (n, affinity * self._shares[groups.group_of[n]])
                for n, affinity in neighbours
                if groups.group_of[n] != used[-1]
                and not self._clash(groups.group_of[n], used[-1])
            ]
            if not neighbours:
                break
            weights = [affinity for _, affinity in neighbours]
            picked = random.choices(range(len(neighbours)), weights)[0]
            chosen.append(neighbours[picked][0])
            used.append(groups.group_of[chosen[-1]])
        rest = [group for group in range(len(groups)) if group not in used]
        if self._config.distinct_sets:
            partners = [group for group in rest if _has_partner(used[0], group)]
            rest = partners if len(partners) >= size - len(chosen) else rest
        drawn = self._draw_apart(random, rest, used, size - len(chosen))
        return chosen + groups.choose(drawn, members, chosen)

    def _take_turn(
        self,
        first: int,
        neighbours: Sequence[tuple[int, float]],
        turn: int,
        size: int,
    ) -> list[tuple[int, float]]:
        """Take the partners of a first tool whose turn it is; the best come early."""
        random = self._random("partners", first)
        group_of = self._groups.group_of
        partners = [
            (
                random.random() ** (1 / (affinity * self._shares[group_of[n]])),
                n,
                affinity,
            )
            for n, affinity in neighbours
            if _has_partner(first, group_of[n])
        ]
        ordered = [(n, affinity) for _, n, affinity in sorted(partners, reverse=True)]
        start = turn * size
        places = range(start, start + min(size, len(ordered)))
        return [ordered[place % len(ordered)] for place in places]

    def _draw_numbers(self, attempt: int, random: Random) -> tuple[int, int]:
        if self._config.tools_per_query:
            return super()._draw_numbers(attempt, random)
        at_least = self._config.fewest_tools
        return random.randint(at_least, self._config.most_tools), at_least

    def _draw_apart(
        self, random: Random, rest: Sequence[int], used: Sequence[int], size: int
    ) -> list[int]:
        """Draw groups that are no alternatives of those used or of each other, if there are any."""
        if not self._config.separate_alternatives:
            return self._draw(random, rest, size)
        drawn: list[int] = []
        passed: list[int] = []
        for group in self._draw(random, rest, min(len(rest), max(size, _TRIES))):
            if len(drawn) == size:
                break
            clashes = any(self._clash(group, other) for other in (*used, *drawn))
            (passed if clashes else drawn).append(group)
        return [*drawn, *passed][:size]


def _has_partner(first: int, second: int) -> bool:
    """Whether a group may have another as its partner; of two, exactly one may."""
    return (first < second) == bool((first + second) % 2)


class RandomOffers(_GroupOffers):
    """Offer sibling groups sampled without regard to what the tools do."""

    def _choose(self, number: int, random: Random) -> list[int]:
        if self._config.sampling == "uniform":
            every, random = range(len(self._groups)), self._random("uniform", number)
            groups = self._draw(random, every, self._config.offered)
        else:
            groups = [*self._sets.sample(number)]
        return self._groups.choose(groups, self._random("member", number))


class ListedOffers:
    """Offer the candidate sets of a file in their order, and again from the first.

    Raises:
        InputError: the file can't be read; or lines have an unknown tool, one tool twice, fewer
            tools than a query needs, or the set of an earlier line.
    """

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        assert config.candidate_sets is not None
        self._config, self._seed = config, seed
        self._tools = tools
        self._index = Bank(tuple(tools)).index
        self._lines: dict[frozenset[str], int] = {}
        path = config.candidate_sets
        self._sets = [*iterate_lines(path, self._read, decode=decode_list)]
        if not self._sets:
            raise InputError(
                f"{path}: it has no set. Write one list of tools per line."
            )

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of an attempt."""
        names = self._sets[attempt % len(self._sets)]
        at_most, at_least = draw_numbers(self._config, self._seed, attempt)
        return Offer(names, min(at_most, len(names)), min(at_least, len(names)))

    def _read(self, line: list[Any], number: int) -> tuple[str, ...]:
        for name in line:
            if not isinstance(name, str) or name not in self._index:
                near = get_close_matches(str(name), self._index, n=1)
                raise ValueError(
                    f"there is no tool {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}"
                )
        names = tuple(self._tools[self._index[name]].name for name in line)
        if twice := [name for name, n in Counter(names).items() if n > 1]:
            raise ValueError(f"{twice[0]!r} is there twice. Remove one.")
        config = self._config
        needed = config.most_tools if config.tools_per_query else config.fewest_tools
        if len(names) < needed:
            tools = count(len(names), "tool")
            raise ValueError(f"{tools}, and a query may need {needed}. Add tools.")
        first = self._lines.setdefault(frozenset(names), number)
        if first != number:
            raise ValueError(f"the same set as in line {first}. Remove one.")
        return names


def make_offers(
    tools: Sequence[Tool],
    config: GenerateConfig,
    seed: int,
    affinity: Affinity | None = None,
) -> Offers:
    """Make the offers of a recipe, for engines without offers of their own.

    Raises:
        InputError: the bank has fewer tools than a query uses, a weight is of no tool, or the file
            of candidate sets can't be used.
    """
    if config.candidate_sets is not None:
        return ListedOffers(tools, config, seed)
    kind = RelatedOffers if config.sampling == "related" else RandomOffers
    return kind(tools, config, seed, affinity or Affinity(tools))


# More than the attempts that are open at a time: an offer is read while its attempt runs.
_CACHED_OFFERS = 8192


class Sampler:
    """Sample, prompt and check the attempts of one version of the catalogue.

    `offers` are those of an engine that brings its own.

    Raises:
        InputError: the bank is too small, or the examples can't be read.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        domain: str,
        seed: int,
        offers: Offers | None = None,
    ) -> None:
        made = offers or make_offers(tools, config, seed)
        self.offer = lru_cache(_CACHED_OFFERS)(made.offer)
        self.prompts = WriterPrompts(domain, config, seed)
        self.checker = Checker(tools, config, self.prompts.example_texts)
        self._tools = {tool.name: tool for tool in tools}

    def write_request(self, number: int) -> ChatRequest:
        """Make the write request of an attempt, which has to have an offer."""
        offer, tools = self._find(number)
        contrast = [self._tools[name] for name in offer.contrast]
        return self.prompts.write(
            number, tools, offer.at_most, offer.at_least, contrast
        )

    def check_draft(self, number: int, draft: Draft) -> tuple[Tool, ...] | Rejection:
        """Return the tools of an attempt's draft, or why it can't be used."""
        offer, tools = self._find(number)
        return self.checker.check_draft(draft, tools, offer.at_most)

    def _find(self, number: int) -> tuple[Offer, tuple[Tool, ...]]:
        offer = self.offer(number)
        if offer is None:
            raise ValueError(f"there is no attempt {number}")
        return offer, tuple(self._tools[name] for name in offer.tools)
