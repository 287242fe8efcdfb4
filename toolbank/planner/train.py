"""Supervised fine-tuning of a planner (arXiv 2312.10332, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolbank.planner.language_model import END, LanguageModel, make_model, read_model
from toolbank.planner.prompt import Prompts, Situation
from toolbank.training.run import Training, seed_weights, train_model
from toolbank.training.text import pad

if TYPE_CHECKING:
    from toolbank.planner.config import PlannerConfig
    from toolbank.planner.plans import Example
    from toolbank.training.config import TrainingContext

_NOT_LEARNT = -100


def train_planner(
    examples: Sequence[Example],
    situations: Sequence[Situation],
    prompts: Prompts,
    config: PlannerConfig,
    context: TrainingContext,
) -> tuple[LanguageModel, Training, float]:
    """A model that says each example's step in its situation, and the share of prompts cut.

    The loss is the mean cross-entropy of the steps' tokens; the prompts' are not learnt. The line
    `END` follows a plan's last step.

    Raises:
        InputError: the model or a setting of the training can't be had here.
    """
    texts = [
        f"{example.step.text}\n{END}" if example.is_last else example.step.text
        for example in examples
    ]
    seed_weights(context.seed)
    length = config.training.max_length
    if config.model is None:
        raise ValueError("planner.ask is not trained")
    if isinstance(config.model, str):
        model = read_model(config.model)
    else:
        rendered = [prompts.render(situation) for situation in situations]
        model = make_model(config.model.new, [*rendered, *texts], length)
    if config.lora:
        model.adapt(config.lora)
    rows, cut = [], 0
    room = length - config.response
    for situation, text in zip(situations, texts, strict=True):
        ids, is_cut = prompts.fit(situation, model.tokenise, room)
        said = model.tokenise_response(text, config.response)
        rows.append({"prompt": ids, "said": said})
        cut += is_cut

    def collate(batch: list[Mapping[str, list[int]]]) -> dict[str, Any]:
        whole = pad([[*row["prompt"], *row["said"]] for row in batch], model.end)
        labels = pad(
            [[_NOT_LEARNT] * len(row["prompt"]) + row["said"] for row in batch],
            _NOT_LEARNT,
        )["input_ids"]
        # Of what is before the first step of all, no token's logits are needed.
        kept = labels.shape[1] - min(len(row["prompt"]) for row in batch) + 1
        return {**whole, "labels": labels[:, -kept:], "logits_to_keep": kept}

    network: Any = model.model
    training = train_model(
        network,
        rows,
        config.training,
        context,
        collate=collate,
        lengths=[len(row["prompt"]) + len(row["said"]) for row in rows],
        title="train planner",
    )
    model.merge()
    model.model.eval()
    return model, training, cut / len(rows)
