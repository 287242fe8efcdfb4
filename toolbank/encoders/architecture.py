"""What an encoder's speed follows from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.locate import locate
from toolbank.encoders.model import find_here

_WIDTH = ("hidden_size", "dim", "d_model")
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers")


def describe_architecture(encoder: EncoderConfig) -> str:
    """Its kind, its layers and their width, such as "bert, 6 layers of 384"; "" if not known.

    Only its configuration is read; it is not downloaded.

    Raises:
        InputError: there is no such folder, it has no tokenizer or no weights, or as `locate` does.
    """
    folder = find_here(locate(encoder))
    config = _read_config(folder) if folder else {}
    width, layers = (
        next((config[name] for name in names if name in config), None)
        for names in (_WIDTH, _LAYERS)
    )
    if width is None or layers is None:
        return ""
    return f"{config.get('model_type')}, {layers} layers of {width}"


def _read_config(folder: Path) -> dict[str, Any]:
    """The transformer's; sentence-transformers once put that into a folder of its own."""
    for path in (folder / "config.json", folder / "0_Transformer" / "config.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return {}
