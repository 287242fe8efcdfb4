"""The encoder `toolbank`: the default model, and a small change of its weights that comes along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.system.files import read_json

if TYPE_CHECKING:
    import torch

ADAPTED = "toolbank"
"""The name of the default model with our adapter."""

FOLDER = Path(__file__).parent / "adapter"
"""What peft wrote when it was trained, and its card."""

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"


def merge_adapter(transformer: torch.nn.Module, folder: Path = FOLDER) -> None:
    """Add its low-rank change to each weight W: alpha / r B A (LoRA, arXiv 2106.09685, section 4.1).

    `transformer` is that of the model that the adapter was trained on, without layers above it.
    """
    import torch
    from safetensors.torch import load_file

    settings, weights = read_json(folder / SETTINGS), load_file(folder / WEIGHTS)
    scale = settings["lora_alpha"] / settings["r"]
    with torch.no_grad():
        for name in (name for name in weights if name.endswith(_DOWN)):
            path = name.removeprefix("base_model.model.").removesuffix(_DOWN)
            up = weights[name.replace(_DOWN, _UP)]
            layer = transformer.get_submodule(path)
            layer.get_parameter("weight").add_(scale * up @ weights[name])
