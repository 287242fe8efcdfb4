"""Train ProTIP's encoder: examples, hard negatives, loss (arXiv 2312.10332)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from toolbank.bank.ranking import top_k
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.protip import embed
from toolbank.retrievers.protip.plans import ToolPlan, measure_distances
from toolbank.retrievers.settings import ProtipConfig
from toolbank.training.run import Training, train_model
from toolbank.training.text import Ids, pad, pad_id
from toolbank.training.trainers import encode_texts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Mined = Sequence[Sequence[Sequence[int]]]


class PlanExample(TypedDict):
    """A request as tokens, its plan, and negative tools.

    `drawn` are random ones; `mined` are hard ones of every step, or empty.
    """

    query: Ids
    plan: ToolPlan
    drawn: Sequence[int]
    mined: Sequence[Sequence[int]]


class PlanExamples(Sequence[PlanExample]):
    """Every plan an example, with new negatives in each epoch.

    `queries` are the plans' requests as tokens. Negatives are random tools of other plans, one a
    step, or the result of `mine` for every step of every plan at the start of an epoch. A tool
    that no plan uses is never a negative: it would be pushed away from all requests.
    """

    def __init__(
        self,
        plans: Sequence[ToolPlan],
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
        """Start an epoch: draw or mine its negatives, unless they are mined already."""
        self._epoch = epoch
        if self._mine and self._mined_for != epoch:
            self._mined, self._mined_for = self._mine(), epoch

    def save_epoch(self) -> dict[str, Any]:
        """Return the negatives that were mined at the start of the epoch."""
        return {"epoch": self._mined_for, "mined": self._mined}

    def load_epoch(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `save_epoch`."""
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

    def _draw(self, place: int, plan: ToolPlan) -> list[int]:
        random = Random(f"{self._seed}:protip:{self._epoch}:{place}")
        others = len(self._used) - len(plan.tools)
        drawn = random.sample(range(others), min(plan.steps, others))
        # Numbers among the others become places by stepping over the plan's own.
        for own in sorted(bisect_left(self._used, index) for index in plan.tools):
            drawn = [number + (number >= own) for number in drawn]
        return [self._used[number] for number in drawn]


def find_used(plans: Sequence[ToolPlan]) -> list[int]:
    """The tools of all plans, in their order."""
    return sorted({index for plan in plans for index in plan.tools})


class PlanCollator:
    """Collates examples into a batch that has every tool once.

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


def step_queries(queries: Tensor, tools: Tensor) -> Tensor:
    """Compute the query of each step: x_j = E(q) - sum of E(t_i) over i < j (eq. 1).

    `queries` [n, d] are the requests' vectors, `tools` [n, steps, d] those of their tools in
    call order, zeros after a plan's end. Returns [n, steps, d].
    """
    before = tools.cumsum(dim=1) - tools
    return queries[:, None, :] - before


def contrastive_losses(distances: Tensor, is_positive: Tensor, margin: float) -> Tensor:
    """Compute the loss of each pair: y D^2 / 2 + (1 - y) max(0, m - D)^2 / 2 (eq. 3).

    Hadsell, Chopra and LeCun 2006. `distances` are D >= 0, and `is_positive` y, of one shape.
    """
    near = distances.square() / 2
    far = (margin - distances).clamp(min=0).square() / 2
    return torch.where(is_positive, near, far)


def plan_loss(
    queries: Tensor,
    tools: Tensor,
    plans: Tensor,
    positives: Tensor,
    negatives: Tensor,
    margin: float,
) -> Tensor:
    """The mean over all steps of the mean of a step's positive pairs and that of its negative ones.

    `queries` [n, d] and `tools` [m, d] are vectors, `plans` [n, steps] the places in `tools`
    of each request's tools in call order, padded with -1; `positives` and `negatives`
    [n, steps, m] mark the positive and negative tools of a step. The paper has one random negative
    pair per positive pair. Here the mean of several negative pairs has the same weight.
    """
    there = plans >= 0
    own = tools[plans.clamp(min=0)] * there[:, :, None]
    asked = step_queries(queries, own)[there]
    near, far = positives[there], negatives[there]
    distances = torch.cdist(asked, tools, compute_mode="donot_use_mm_for_euclid_dist")
    losses = contrastive_losses(distances, near, margin)
    positive = (losses * near).sum(dim=1) / near.sum(dim=1)
    negative = (losses * far).sum(dim=1) / far.sum(dim=1).clamp(min=1)
    return (positive + negative).mean()


Vectors = NDArray[np.float32]


def mine_negatives(
    plans: Sequence[ToolPlan], queries: Vectors, tools: Vectors, most: int
) -> list[list[list[int]]]:
    """Find the nearest tools to every step of every plan by L2 distance, of other plans' tools.

    `queries` [n, d] are the vectors of the plans' requests and `tools` [m, d] those of all tools;
    gives at most `most` tools for each step, nearest first.
    """
    mined: list[list[list[int]]] = []
    used = np.array(find_used(plans), dtype=np.int64)
    offered = tools[used]
    squares = np.square(offered).sum(axis=1)
    for plan, query in zip(plans, queries, strict=True):
        own = list(plan.tools)
        is_near = np.isin(used, [*own, *plan.spared])
        before = np.cumsum(tools[own], axis=0) - tools[own]
        steps = query - before[: plan.steps]
        nearness = 2 * steps @ offered.T - squares
        nearness[:, is_near] = -np.inf
        nearest, _ = top_k(nearness, min(most, int((~is_near).sum())))
        mined.append(used[nearest].tolist())
    return mined


class PlanModel(nn.Module):
    """Encodes a batch's requests and tools with one encoder, each once; gives the loss."""

    def __init__(self, encoder: SentenceTransformer, margin: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.margin = margin

    def forward(
        self,
        queries: dict[str, Tensor],
        tools: dict[str, Tensor],
        plans: Tensor,
        positives: Tensor,
        negatives: Tensor,
    ) -> dict[str, Tensor]:
        """The loss of a batch that `PlanCollator` made."""
        loss = plan_loss(
            self._embed(queries),
            self._embed(tools),
            plans,
            positives,
            negatives,
            self.margin,
        )
        return {"loss": loss}

    def _embed(self, tokens: dict[str, Tensor]) -> Tensor:
        vectors: Tensor = self.encoder(dict(tokens))["sentence_embedding"]
        return vectors.float()


_HARD = 4
_SAMPLE = 256


def train_plans(
    encoder: SentenceTransformer,
    plans: Sequence[ToolPlan],
    tools: Sequence[str],
    config: ProtipConfig,
    context: FitContext,
    validate: Callable[[], float] | None,
) -> Training:
    """Train an encoder on plans; `tools` are all tools' texts, prefix and all.

    The margin is in units of the mean distance between a request and a tool before training.
    `validate` returns Recall@5 on the validation queries.
    """
    size = config.encoder.batch_size
    queries = [config.encoder.as_query(plan.query) for plan in plans]

    def mine() -> list[list[list[int]]]:
        asked, offered = (embed(encoder, texts, size) for texts in (queries, tools))
        return mine_negatives(plans, asked, offered, _HARD)

    longest = config.training.max_length
    ids = encode_texts(encoder, queries, longest)
    scale = _mean_distance(encoder, queries, tools, size)
    return train_model(
        PlanModel(encoder, config.margin * scale),
        PlanExamples(
            plans,
            ids,
            context.seed,
            mine if config.negatives == "hard" else None,
        ),
        config.training,
        context,
        collate=PlanCollator(
            encode_texts(encoder, tools, longest), pad_id(encoder.tokenizer)
        ),
        lengths=[len(row) for row in ids],
        validate=validate,
        title=config.label,
    )


def _mean_distance(
    encoder: SentenceTransformer,
    queries: Sequence[str],
    tools: Sequence[str],
    batch_size: int,
) -> float:
    asked, offered = (
        embed(encoder, texts[:: math.ceil(len(texts) / _SAMPLE)], batch_size)
        for texts in (queries, tools)
    )
    return float(measure_distances(asked, offered).mean())
