"""The plans of a bank: requests and their tools in call order."""

from __future__ import annotations

from dataclasses import dataclass

from toolbank.bank import Bank, Split
from toolbank.errors import InputError


@dataclass(frozen=True)
class Plan:
    """A request and the indices of its tools in call order, none twice."""

    query: str
    tools: tuple[int, ...]


def read_plans(bank: Bank, split: Split) -> list[Plan]:
    """The plans of a split; a query none of whose tools the bank has is none.

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
    for query in bank.split(split):
        known = (bank.index[name] for name in query.tools if name in bank.index)
        if tools := tuple(dict.fromkeys(known)):
            plans.append(Plan(query.query, tools))
    return plans
