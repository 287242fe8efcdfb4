"""The plans of a bank: requests and their tools in call order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.system.errors import InputError


@dataclass(frozen=True)
class Plan:
    """A request and the indices of its tools in call order, none twice.

    Or, with `either`, the tools each of which serves it alone, by one step. `spared` are others
    that would serve in place of one of its tools.
    """

    query: str
    tools: tuple[int, ...]
    either: bool = False
    spared: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """How many there are."""
        return 1 if self.either else len(self.tools)


def divide_plans(bank: Bank, seed: int) -> tuple[list[Plan], list[Plan]]:
    """The plans to train on, and those to measure on: of validation, or else held back.

    Asks are plans of one step, which any of the siblings that share one serves. None is held
    back, as how long plans are is measured, too.

    Raises:
        InputError: the bank says that the order of its queries' tools means nothing.
    """
    train, known = (read_plans(bank, bank.split(s)) for s in ("train", "validation"))
    if not known:
        train, known = hold_back(train, seed)
    asked = [replace(plan, either=True) for plan in read_plans(bank, bank.asked)]
    return train + asked, known


def read_plans(bank: Bank, queries: Sequence[Query]) -> list[Plan]:
    """The plans of some queries; one none of whose tools the bank has is none.

    Raises:
        InputError: the bank says that the order of its queries' tools means nothing.
    """
    if not bank.info.get("ordered", True):
        raise InputError(
            "retrievers: protip learns the order in which tools are called, and in this bank "
            "the order of a query's tools means nothing (`ordered: false`). Leave it out, or "
            "use a dataset whose tools are ordered."
        )
    plans = []
    for query in queries:
        known = (bank.index[name] for name in query.tools if name in bank.index)
        if tools := tuple(dict.fromkeys(known)):
            others = {
                bank.index[n] for n in bank.alternatives(query) if n in bank.index
            }
            spared = tuple(sorted(others.difference(tools)))
            plans.append(Plan(query.query, tools, spared=spared))
    return plans


def hold_back(plans: Sequence[Plan], seed: int) -> tuple[list[Plan], list[Plan]]:
    """The plans to train on, and a tenth of them, drawn by the seed, to measure on.

    Each tool of a plan that is held back is in one to train on, so there can be fewer.
    """
    counts = Counter(tool for plan in plans for tool in plan.tools)
    held: set[int] = set()
    for place in Random(f"{seed}:hold-back").sample(range(len(plans)), len(plans)):
        if len(held) >= len(plans) // 10:
            break
        if all(counts[tool] > 1 for tool in plans[place].tools):
            counts.subtract(plans[place].tools)
            held.add(place)
    train = [plan for place, plan in enumerate(plans) if place not in held]
    return train, [plans[place] for place in sorted(held)]
