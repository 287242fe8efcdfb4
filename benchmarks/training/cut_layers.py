"""The default encoder cut to its first layers, as a folder that a recipe's `encoder.model` names.

    python benchmarks/training/cut_layers.py 3 minilm-3

Nothing is trained: what a shorter encoder knows without it.
"""

import argparse
from pathlib import Path

from toolbank.encoders.model import load_model, save_model
from toolbank.encoders.sentence import DEFAULT_MODEL


def cut_layers(layers: int, folder: Path) -> None:
    """Save the encoder with so many of its layers, the lowest ones."""
    model = load_model(DEFAULT_MODEL)
    body = model[0].auto_model
    body.encoder.layer = body.encoder.layer[:layers]
    body.config.num_hidden_layers = layers
    save_model(model, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    cut_layers(given.layers, given.folder)
