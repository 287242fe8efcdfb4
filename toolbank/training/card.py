"""The model card of a trained retriever: README.md in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolbank.config.base import Config
from toolbank.system.files import write_text
from toolbank.system.numbers import count
from toolbank.system.text import fill_template
from toolbank.system.version import __version__
from toolbank.training.config import METRIC
from toolbank.training.run import Training

_NAME = "README.md"


def make_card(
    config: Config,
    *,
    method: str,
    counts: Mapping[str, int],
    trainings: Mapping[str, Training],
) -> str:
    """Write the card: what the retriever is, its data, how well it did, how to load it.

    `method` is a sentence for people, `counts` is such as {"tools": 320, "train queries": 5000},
    and `trainings` is by what was trained, such as {"encoder": ...}.
    """
    settings = config.model_dump(mode="json")
    label = settings.get("name") or settings["type"]
    encoder = (settings.get("encoder") or {}).get("model", "")
    head = {
        "library_name": "toolbank",
        "tags": ["tool-retrieval", settings["type"]],
    }
    if "/" in encoder and encoder[0] not in "./~":
        head["base_model"] = encoder
    return fill_template(
        "training/card.md.j2",
        head=head,
        label=label,
        method=method,
        version=__version__,
        counts=counts,
        count=count,
        trainings=trainings,
        metric=METRIC,
        describe_history=_describe_history,
        settings=settings,
    )


def write_card(folder: Path, card: str) -> None:
    """Write a card into a saved retriever's folder, unless it is empty."""
    if card:
        write_text(folder / _NAME, card)


def read_card(folder: Path) -> str:
    """Read the card in a saved retriever's folder; "" if there is none."""
    path = folder / _NAME
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _describe_history(training: Training) -> str:
    best = training.best_epoch or 0
    last = len(training.history) - 1
    values = ", ".join(
        f"{training.history[epoch]:.4f} {_name_epoch(epoch)}"
        for epoch in sorted({0, best, last})
    )
    return f"{values}. The weights are those {_name_epoch(best)}."


def _name_epoch(epoch: int) -> str:
    return f"after epoch {epoch}" if epoch else "before the training"
