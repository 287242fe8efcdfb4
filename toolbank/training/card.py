"""The model card of a trained retriever: README.md in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from toolbank.config.base import Config
from toolbank.system.files import write_text
from toolbank.system.numbers import count
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
    """What a trained retriever is, what it was trained on, how well it did, how to load it.

    `method` is a sentence for people; `counts` such as {"tools": 320, "train queries": 5000};
    `trainings` by what was trained, such as {"encoder": ...}.
    """
    settings = config.model_dump(mode="json")
    label = settings.get("name") or settings["type"]
    encoder = (settings.get("encoder") or {}).get("model", "")
    head = {
        "library_name": "toolbank",
        "tags": ["tool-retrieval", settings["type"]],
        **(
            {"base_model": encoder}
            if "/" in encoder and encoder[0] not in "./~"
            else {}
        ),
    }
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False).strip(),
        "---",
        "",
        f"# {label}",
        "",
        method,
        "",
        f"Made by toolbank {__version__}. It finds the tools that a request needs:",
        "",
        "```python",
        "from pathlib import Path",
        "",
        "from toolbank.retrievers import load_retriever",
        "",
        'retriever = load_retriever(Path("."))  # this folder',
        'indices, scores = retriever.search(["your request"], k=5)',
        "print([retriever.tools[i] for i in indices[0] if i >= 0])",
        "```",
        "",
        "## Data",
        "",
        *(f"- {name}: {count:,}" for name, count in counts.items()),
        "",
    ]
    for name, training in trainings.items():
        lines += [f"## Training: {name}", "", *_describe(training), ""]
    lines += [
        "## Settings",
        "",
        "```yaml",
        yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).strip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def write_card(folder: Path, card: str) -> None:
    """Write a card into a saved retriever's folder; nothing where it is empty."""
    if card:
        write_text(folder / _NAME, card)


def read_card(folder: Path) -> str:
    """The card in a saved retriever's folder; "" without."""
    path = folder / _NAME
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _describe(training: Training) -> list[str]:
    lines = [
        f"{count(training.examples, 'example')}, {count(training.steps, 'step')}, "
        f"{training.epochs:g} epoch{'' if training.epochs == 1 else 's'}."
    ]
    if training.best_epoch is not None:
        last = len(training.history) - 1
        values = ", ".join(
            f"{training.history[epoch]:.4f} {_name_epoch(epoch)}"
            for epoch in sorted({0, training.best_epoch, last})
        )
        lines += [
            "",
            f"{METRIC} on validation: {values}. "
            f"The weights are {_say_when(training.best_epoch)}.",
        ]
    return lines


def _name_epoch(epoch: int) -> str:
    return f"after epoch {epoch}" if epoch else "before the training"


def _say_when(epoch: int) -> str:
    return f"those of epoch {epoch}" if epoch else "those before the training"
