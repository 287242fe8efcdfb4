"""Encoders as ONNX, run by onnxruntime and tokenizers without torch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig, Precision
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

MODEL, TOKENIZER, ABOUT = "model.onnx", "tokenizer.json", "onnx.json"


class OnnxNetwork:
    """A network that `export_network` wrote to a folder; threads may share one.

    With `alone`, texts run one at a time: in 8 bits a batch has common scales, so an output would
    depend on the other texts.
    """

    def __init__(self, folder: Path) -> None:
        """Read a network.

        Raises:
            InputError: a file is missing or damaged.
        """
        self._folder, about = folder, read_json(folder / ABOUT)
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer

            options = SessionOptions()
            # Concurrent searches use the processors better than the layers of one text.
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self._session = InferenceSession(
                str(folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer: Any = None
            if (folder / TOKENIZER).is_file():
                self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
                self._tokenizer.no_padding()
            self.dimension = int(about["dimension"])
            self.alone = bool(about["alone"])
            self._padding = int(about["padding"])
        except ImportError:
            raise
        # The libraries raise exceptions of their own, or plain ones.
        except Exception as error:
            raise InputError(
                f"{folder}: can't be read as ONNX ({type(error).__name__}: "
                f"{str(error).partition(chr(10))[0]}). Pack it again: toolbank pack RUN --out DIR."
            ) from error

    @staticmethod
    def lies_in(folder: Path) -> bool:
        """Whether a folder holds a network as ONNX."""
        return (folder / MODEL).is_file()

    def write(self, folder: Path) -> None:
        """Copy its files to a new folder."""
        folder.mkdir(parents=True)
        for name in (MODEL, TOKENIZER, ABOUT):
            if (self._folder / name).is_file():
                shutil.copy(self._folder / name, folder / name)

    def run_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Run the network on texts: outputs [n, ...]."""
        ids = self.tokenise(texts)
        parts = [ids[n : n + 1] for n in range(len(ids))] if self.alone else [ids]
        return np.concatenate([self._run_padded(part) for part in parts])

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, truncated to what the network reads."""
        return [one.ids for one in self._tokenizer.encode_batch(list(texts))]

    def run(self, **inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Run the network on arrays, in one batch whatever its precision."""
        found: NDArray[np.float32] = self._session.run(None, inputs)[0]
        return found

    def _run_padded(self, given: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(1, *map(len, given))
        ids = np.full((len(given), longest), self._padding, np.int64)
        mask = np.zeros((len(given), longest), np.int64)
        for row, one in enumerate(given):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        return self.run(input_ids=ids, attention_mask=mask)


_OPEN: WeakValueDictionary[object, OnnxNetwork] = WeakValueDictionary()
_OPENING = Lock()


def open_network(folder: Path) -> OnnxNetwork:
    """Open the network of a folder, or reuse one in use if its file has not changed.

    Raises:
        InputError: a file is missing or damaged.
    """
    place = folder.resolve()
    model = place / MODEL
    written = model.stat().st_mtime_ns if model.is_file() else 0
    key = (place, written)
    with _OPENING:
        network = _OPEN.get(key)
        if network is None:
            network = _OPEN[key] = OnnxNetwork(place)
    return network


class OnnxEncoder(Encoder):
    """A sentence encoder on onnxruntime, with pooling and norm in its graph."""

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
        """Copy the files of the network.

        Raises:
            InputError: it has another precision.
        """
        if precision != "as it is" and self._network.alone != (precision == "int8"):
            raise InputError(
                f"{self.config.label}: is ONNX already, and not in {precision}. Pack it as it is."
            )
        self._network.write(folder)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts without prefixes: unit vectors [n, dimension]."""
        return self._network.run_texts(texts)
