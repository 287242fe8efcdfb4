"""Plans as examples to train on, and batches of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypedDict

import torch

from toolbank.retrievers.protip.plans import Plan
from toolbank.training.text import Ids, pad

Mined = Sequence[Sequence[Sequence[int]]]


class PlanExample(TypedDict):
    """A request as tokens, its plan, and tools that are none of it.

    `drawn` are random ones; `mined` are hard ones of every step, or empty.
    """

    query: Ids
    plan: Plan
    drawn: Sequence[int]
    mined: Sequence[Sequence[int]]


class PlanExamples(Sequence[PlanExample]):
    """Every plan an example, with new negatives in each epoch.

    `queries` are the plans' requests as tokens. Negatives are random tools of other plans, one a
    step, or what `mine` gives for every step of every plan when an epoch begins. A tool that no
    plan uses is none: it would be driven away from all requests, and drawn to none.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        queries: Sequence[Ids],
        seed: int,
        mine: Callable[[], Mined] | None = None,
    ) -> None:
        self._plans = plans
        self._queries = queries
        self._used = find_used(plans)
        self._seed = seed
        self._mine = mine
        self._epoch = 0
        self._mined: Mined = ()
        self._mined_for: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Draw or mine for an epoch that begins; what was mined for it is not mined again."""
        self._epoch = epoch
        if self._mine and self._mined_for != epoch:
            self._mined, self._mined_for = self._mine(), epoch

    def save_epoch(self) -> dict[str, Any]:
        """What was mined for the epoch, by the weights at its beginning."""
        return {"epoch": self._mined_for, "mined": self._mined}

    def load_epoch(self, saved: Mapping[str, Any]) -> None:
        """Take over what `save_epoch` gave."""
        self._mined_for, self._mined = saved["epoch"], saved["mined"]

    def __len__(self) -> int:
        return len(self._plans)

    def __getitem__(self, place: Any) -> Any:
        plan = self._plans[place]
        return {
            "query": self._queries[place],
            "plan": plan,
            "drawn": () if self._mined else self._draw(place, plan),
            "mined": self._mined[place] if self._mined else (),
        }

    def _draw(self, place: int, plan: Plan) -> list[int]:
        random = Random(f"{self._seed}:protip:{self._epoch}:{place}")
        others = len(self._used) - len(plan.tools)
        drawn = random.sample(range(others), min(plan.steps, others))
        # Numbers among the others become places by stepping over the plan's own.
        for own in sorted(bisect_left(self._used, index) for index in plan.tools):
            drawn = [number + (number >= own) for number in drawn]
        return [self._used[number] for number in drawn]


def find_used(plans: Sequence[Plan]) -> list[int]:
    """The tools of all plans, in their order."""
    return sorted({index for plan in plans for index in plan.tools})


class PlanCollator:
    """Examples as a batch in which every tool stands once.

    Gives `queries` and `tools` as padded tokens, `plans` [n, steps] the places of each plan's
    tools among those of the batch, padded with -1, `positives` [n, steps, m] the tools that serve
    a step, and `negatives` [n, steps, m]: of a plan with mined ones those of its step, else all
    tools of the batch that are not the plan's and would not serve in place of one. Those come from the draws of all the batch, and
    the cost of encoding them is shared.
    """

    def __init__(self, tools: Sequence[Ids], pad_id: int) -> None:
        self._tools = tools
        self._pad_id = pad_id

    def __call__(self, examples: Sequence[PlanExample]) -> dict[str, Any]:
        """The batch of some examples."""
        named = {
            index
            for example in examples
            for found in (example["plan"].tools, example["drawn"], *example["mined"])
            for index in found
        }
        present = sorted(named)
        place = {index: number for number, index in enumerate(present)}
        most = max(example["plan"].steps for example in examples)
        plans = torch.full((len(examples), most), -1)
        positives = torch.zeros((len(examples), most, len(present)), dtype=torch.bool)
        negatives = torch.zeros_like(positives)
        for row, example in enumerate(examples):
            steps = example["plan"].steps
            own = [place[index] for index in example["plan"].tools]
            plans[row, :steps] = torch.tensor(own[:steps])
            positives[row, list(range(steps)), own] = True
            if example["mined"]:
                for step, hard in enumerate(example["mined"]):
                    negatives[row, step, [place[index] for index in hard]] = True
            else:
                negatives[row, :steps] = True
                spared = [place[i] for i in example["plan"].spared if i in place]
                negatives[row, :, own + spared] = False
        return {
            "queries": pad([example["query"] for example in examples], self._pad_id),
            "tools": pad([self._tools[index] for index in present], self._pad_id),
            "plans": plans,
            "positives": positives,
            "negatives": negatives,
        }
