"""Text to unit vectors, by a network as ONNX."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.encoder import Encoder, Precision
from toolbank.encoders.onnx.session import (
    ABOUT,
    MODEL,
    TOKENIZER,
    OnnxNetwork,
    open_network,
)
from toolbank.system.errors import InputError


class OnnxEncoder(Encoder):
    """A sentence encoder by onnxruntime; pooling and norm are in its graph."""

    remembered = 1_000

    def __init__(self, network: OnnxNetwork, config: EncoderConfig) -> None:
        super().__init__(config)
        self._network = network

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the encoder of a folder."""
        return cls(open_network(Path(name)), config)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._network.dimension

    def export(self, folder: Path, precision: Precision) -> None:
        """Copy what is ONNX already.

        Raises:
            InputError: it is of another precision.
        """
        if self._network.alone != (precision == "int8"):
            raise InputError(
                f"{self.config.label}: is ONNX already, and not of {precision}. Pack it as it is."
            )
        folder.mkdir(parents=True)
        for name in (MODEL, TOKENIZER, ABOUT):
            shutil.copy(Path(self.config.model) / name, folder / name)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors [n, dimension] of texts as they are."""
        return self._network.run_texts(texts)
