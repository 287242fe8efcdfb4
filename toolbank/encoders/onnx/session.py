"""A network as ONNX with its tokenizer: texts in, arrays out, by onnxruntime alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolbank.system.errors import InputError
from toolbank.system.files import read_json

if TYPE_CHECKING:
    from tokenizers import Encoding

MODEL, TOKENIZER, ABOUT = "model.onnx", "tokenizer.json", "onnx.json"
_MOST_THREADS = 4


class OnnxNetwork:
    """What `export_network` wrote to a folder; threads may share one.

    `alone` says that inputs are to be run one at a time: in 8 bits the scales of a batch are
    those of all its texts, so that one's answer would hang on the others.
    """

    def __init__(self, folder: Path) -> None:
        """Read a network.

        Raises:
            InputError: a file is missing or damaged.
        """
        about = read_json(folder / ABOUT)
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer

            options = SessionOptions()
            options.intra_op_num_threads = min(os.cpu_count() or 1, _MOST_THREADS)
            options.inter_op_num_threads = 1
            # Threads that wait by spinning take the processor from other requests.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._session = InferenceSession(
                str(folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            self._tokenizer.no_padding()
            self.dimension = int(about["dimension"])
            self.alone = bool(about["alone"])
            self._padding = int(about["padding"])
        except ImportError:
            raise
        # Both libraries raise exceptions of their own kinds, or plain ones.
        except Exception as error:
            raise InputError(
                f"{folder}: can't be read as ONNX ({type(error).__name__}: "
                f"{str(error).partition(chr(10))[0]}). Pack it again: toolbank pack RUN --out DIR."
            ) from error

    def run_texts(
        self, texts: Sequence[str], **inputs: NDArray[Any]
    ) -> NDArray[np.float32]:
        """The network's output [n, ...] for texts, and what else it reads, a row a text."""
        return self.run_tokens(self._tokenizer.encode_batch(list(texts)), inputs)

    def run_tokens(
        self, tokens: Sequence[Encoding], inputs: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.float32]:
        """The network's output [n, ...] for tokens."""
        if self.alone and len(tokens) > 1:
            rows = [
                self._run(
                    tokens[n : n + 1], {k: v[n : n + 1] for k, v in inputs.items()}
                )
                for n in range(len(tokens))
            ]
            return np.concatenate(rows)
        return self._run(tokens, inputs)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """The network's output for arrays as it is; of one that reads no text."""
        found: NDArray[np.float32] = self._session.run(None, dict(inputs))[0]
        return found

    def _run(
        self, tokens: Sequence[Encoding], inputs: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.float32]:
        longest = max(len(one.ids) for one in tokens)
        ids = np.full((len(tokens), longest), self._padding, np.int64)
        mask = np.zeros((len(tokens), longest), np.int64)
        for row, one in enumerate(tokens):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
        return self.run({"input_ids": ids, "attention_mask": mask, **inputs})
