"""Results, checkpoints, prompts and poolings of the experiments of papers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from toolbank.encoders.location import merge_adapter
from toolbank.system.errors import InputError
from toolbank.system.files import json_text, read_lines, write_text
from toolbank.system.folders import FolderKind, replacing
from toolbank.training.config import find_inference_type

T = TypeVar("T")

RECORD = "result.json"
"""The file of a result in the folder of its experiment."""

EXPERIMENT = FolderKind("experiment")


@dataclass(frozen=True)
class Result:
    """The result of an experiment: `record` as JSON, `text` for people.

    `files` are further texts by file name, such as the figure "split.svg".
    """

    record: Mapping[str, Any]
    text: str
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, out: Path) -> None:
        """Write result.json, result.txt and the files to a folder.

        Raises:
            InputError: as in `check_folder`, or a file there was edited.
            ToolbankError: the folder is not writable.
        """
        texts = {RECORD: json_text(self.record), "result.txt": self.text + "\n"}
        with replacing(out, EXPERIMENT) as made:
            for name, text in {**texts, **self.files}.items():
                write_text(made / name, text)


def read_rows(path: Path, parse: Callable[[dict[str, Any], int], T]) -> list[T]:
    """Read as `read_lines` does, at least one row.

    Raises:
        InputError: as in `read_lines`, or the file is empty.
    """
    rows = read_lines(path, parse)
    if not rows:
        raise InputError(f"{path}: there is nothing in it.")
    return rows


def read_frozen(
    folder: Path, kind: str, *, is_adapted: bool = False
) -> tuple[Any, Any]:
    """Read a model by a class of transformers, such as "AutoModel", and its tokenizer.

    With `is_adapted`, the bundled low-rank change is added. On a GPU, the model is in half precision.
    """
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, kind).from_pretrained(
        folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=find_inference_type(),
    )
    if is_adapted:
        merge_adapter(model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), tokenizer


@contextmanager
def keeping_checkpoints(out: Path, *parts: Any) -> Iterator[Path]:
    """Give the folder of checkpoints in `out` of a training that depends on `parts`.

    The folder is hidden: it is not part of the encoder in `out`. All of them go once the block ends
    without an error.
    """
    folder = out / ".checkpoints"
    yield folder / sha256(json.dumps(parts).encode()).hexdigest()[:16]
    shutil.rmtree(folder, ignore_errors=True)


Pooling = Literal["mean", "sum", "last", "mask"]
"""How the states of the tokens of a text become one vector; "last" takes that of the last token."""

TEXT = "{text}"
ONE_WORD = 'This sentence: "{text}" means in one word:'
"""The prompt of PromptEOL (arXiv 2307.16645), for pooling "last"."""

PROMPTS = {
    "plain": TEXT,
    "semantic": ONE_WORD,
    "pie": "The essence of an instruction is its task intention. With this in mind, given the "
    f"instruction below: {TEXT} after thinking step by step, the task of the given instruction is:",
}
"""By name: the instruction alone; the prompt of PromptEOL; that of PIE (arXiv 2409.19680)."""
