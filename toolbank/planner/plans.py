"""Plans of a bank: requests and their steps in order, each step with its tool and text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.system.errors import InputError

_CALL = re.compile(r"\bcall\s+(?:the\s+)?[`'\"]?([^\s`'\",;()]+)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*(?:step\s*)?\d+(?:\.\d+)*\s*[.:)]?\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """What is done at a step, and by which tool."""

    text: str
    tool: str


@dataclass(frozen=True)
class Plan:
    """A request and its steps, at least one."""

    id: str
    query: str
    steps: tuple[Step, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of all steps, none twice."""
        return tuple(dict.fromkeys(step.tool for step in self.steps))


@dataclass(frozen=True)
class Example:
    """Step `number` of a plan, from 0, which is to be said by the steps before it."""

    plan: Plan
    number: int

    @property
    def step(self) -> Step:
        """What is to be said."""
        return self.plan.steps[self.number]

    @property
    def history(self) -> tuple[Step, ...]:
        """The steps before."""
        return self.plan.steps[: self.number]

    @property
    def is_last(self) -> bool:
        """Whether the plan ends with it."""
        return self.number == len(self.plan.steps) - 1


def read_plans(bank: Bank, queries: Sequence[Query]) -> tuple[list[Plan], int]:
    """The plans of queries whose explanation has a step a line, and how many lines are no step.

    A step's tool is the one that its text names, and not the one at its place among the query's
    tools, which holds none twice. Lines that name no tool of the bank are counted and left out; so
    is a query all of whose lines are.

    Raises:
        InputError: the bank says that the order of its queries' tools means nothing.
    """
    if not bank.info.get("ordered", True):
        raise InputError(
            "planner: a plan has its steps in the order of calls, and in this bank that order "
            "means nothing (`ordered: false`). Use a dataset whose tools are ordered, and say so "
            "by `dataset.ordered: true`."
        )
    plans, left_out = [], 0
    for query in queries:
        lines = [line for line in query.explanation.splitlines() if line.strip()]
        steps = [step for line in lines if (step := read_step(line, bank.index))]
        left_out += len(lines) - len(steps)
        if steps:
            plans.append(Plan(query.id, query.query, tuple(steps)))
    return plans, left_out


def read_step(line: str, tools: Collection[str]) -> Step | None:
    """A step without its number; None where it names none of the tools.

    The tool is the one after "Call", or else the first word that is the name of one.
    """
    text = " ".join(_NUMBER.sub("", line, count=1).split())
    named = read_tool(text)
    if named in tools:
        return Step(text, named)
    words = (word.strip(".,;:'\"`()") for word in text.split())
    tool = next((word for word in words if word in tools), None)
    return Step(text, tool) if tool else None


def read_tool(text: str) -> str:
    """The tool that a step calls, whether there is one of this name or not: the NAME of "Call NAME".

    "" where it has no "Call".
    """
    found = _CALL.search(text)
    return found[1].rstrip(".:") if found else ""


def unroll(plans: Sequence[Plan]) -> list[Example]:
    """One example a step, in the order of plans and steps (arXiv 2312.10332, section 3.2)."""
    return [Example(plan, n) for plan in plans for n in range(len(plan.steps))]
