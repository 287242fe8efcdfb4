"""Write a torch network as ONNX, in 32 or in 8 bits."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.encoders.config import Precision
from toolbank.encoders.onnx import ABOUT, MODEL, TOKENIZER
from toolbank.system.errors import ToolbankError
from toolbank.system.files import write_json, write_text
from toolbank.training.ranks import quiet
from toolbank.training.text import pad_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_OPSET = 18


def export_network(
    folder: Path,
    network: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    dimension: int,
    precision: Precision,
    inputs: Mapping[str, tuple[torch.Tensor, Mapping[int, str]]] | None = None,
) -> None:
    """Write a network for `OnnxNetwork`.

    It maps `input_ids` and `attention_mask` [n, l] to [n, ...]. `inputs` are further inputs: an
    example [1, ...] of each, and the names of its variable dimensions; with them, n is 1. Texts are
    truncated to `max_length` tokens.
    """
    padding = pad_id(tokenizer)
    n, dims = (1, {1: "length"}) if inputs else (2, {0: "batch", 1: "length"})
    ids = torch.full((n, 8), int(padding), dtype=torch.long)
    mask = torch.ones((n, 8), dtype=torch.long)
    given = {"input_ids": (ids, dims), "attention_mask": (mask, dims), **(inputs or {})}
    _export(folder, network, given, precision, dimension, padding)
    write_text(folder / TOKENIZER, _tokenizer_json(tokenizer, max_length))


def export_head(
    folder: Path, network: torch.nn.Module, width: int, precision: Precision
) -> None:
    """Write a network that reads `vectors` [n, width] for `OnnxNetwork`."""
    given = {"vectors": (torch.zeros(2, width), {0: "batch"})}
    _export(folder, network, given, precision, width)


def _export(
    folder: Path,
    network: torch.nn.Module,
    inputs: Mapping[str, tuple[torch.Tensor, Mapping[int, str]]],
    precision: Precision,
    dimension: int,
    padding: int = 0,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"dimension": dimension, "padding": padding, "alone": precision == "int8"}
    write_json(folder / ABOUT, about)
    # Dimensions of the same name share one size.
    names = {name for _, dims in inputs.values() for name in dims.values()}
    sizes = {name: torch.export.Dim(name) for name in sorted(names)}
    shapes = {
        name: {axis: sizes[dim] for axis, dim in dims.items()}
        for name, (_, dims) in inputs.items()
    }
    network = network.eval().cpu()
    with (
        tempfile.TemporaryDirectory(dir=folder) as beside,
        _silent(),
        torch.no_grad(),
    ):
        made = Path(beside, "made.onnx")
        try:
            torch.onnx.export(
                network,
                (),
                str(made),
                kwargs={name: example for name, (example, _) in inputs.items()},
                input_names=list(inputs),
                dynamic_shapes=shapes,
                dynamo=True,
                opset_version=_OPSET,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            reason = str(error).strip().partition("\n")[0]
            raise ToolbankError(
                f"torch cannot write the network {type(network).__name__} as ONNX: {reason}"
            ) from error
        if precision == "int8":
            made = _quantise(made, Path(beside, "int8.onnx"))
        _fuse(made, folder / MODEL)


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the notes of both libraries, on which a user cannot act."""
    before = logging.root.manager.disable
    with quiet():
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)


def _quantise(model: Path, path: Path) -> Path:
    """Store the weights of matrix products in 8 bits, with a scale per column; scale inputs at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        model,
        path,
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=True,
        weight_type=QuantType.QInt8,
    )
    return path


def _fuse(model: Path, path: Path) -> None:
    """Fuse attention, GELU and norms into one operator each, which onnxruntime alone does not.

    Quantize first: the weights of fused attention would stay in 32 bits.
    """
    from onnxscript import ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    fused, _ = optimize_for_ort(ir.load(model), clear_metadata=True)
    ir.save(fused, path)


def _tokenizer_json(tokenizer: Any, max_length: int) -> str:
    own = getattr(tokenizer, "backend_tokenizer", None)
    settings = json.loads((own or tokenizer).to_str())
    if own is None:
        # Static embeddings read no special tokens, and cut where their tokenizer says.
        settings["post_processor"] = None
        limits = settings["truncation"] or {"max_length": max_length}
        max_length = limits["max_length"]
    backend = type(own or tokenizer).from_str(json.dumps(settings))
    backend.no_padding()
    backend.enable_truncation(max_length)
    text: str = backend.to_str(pretty=False)
    return text


class TextVectors(torch.nn.Module):
    """Tokens to vectors: all modules of a model, cut to `width`, and with `unit` a norm."""

    def __init__(
        self, modules: Iterable[torch.nn.Module], width: int, *, unit: bool
    ) -> None:
        super().__init__()
        self.parts, self.width, self.unit = torch.nn.ModuleList(modules), width, unit

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Compute vectors [n, d] of tokens [n, l]."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        for part in self.parts:
            features = part(features)
        vectors = features["sentence_embedding"][:, : self.width]
        return torch.nn.functional.normalize(vectors, dim=-1) if self.unit else vectors
