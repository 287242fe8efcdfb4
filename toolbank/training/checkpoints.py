"""Which checkpoint of a training that was killed can be gone on from."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from toolbank.system.files import write_text

_STATE = "trainer_state.json"
_BEST = "best_model_checkpoint"


def find_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint in a folder; those that a kill cut short are removed.

    Whole means that the state, which is written last, can be read, and that no file of weights
    or of the optimizer's state is cut off. One whose best epoch's weights are not whole is no use.

    The optimizer's and the random generators' states are read by torch with `weights_only`, so
    nothing in them is run; they are of this folder, which only a run of ours writes.
    """
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    whole = {path.name: path for path in found if _is_whole(path)}
    for path in found:
        if path.name not in whole:
            shutil.rmtree(path, ignore_errors=True)
    for path in whole.values():
        state = read_state(path)
        best = state.get(_BEST)
        if best is None:
            return path
        here = whole.get(Path(best).name)
        if here is not None:
            if best != str(here.resolve()):
                state[_BEST] = str(here.resolve())
                write_text(path / _STATE, json.dumps(state, indent=2))
            return path
    return None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says of the training: steps, epochs, metrics."""
    state: dict[str, Any] = json.loads((checkpoint / _STATE).read_text())
    return state


def _step(path: Path) -> int:
    number = path.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        state = read_state(path)
        weights = list(path.rglob("*.safetensors"))
        for file in weights:
            with safe_open(file, "pt") as opened:
                opened.keys()
    except (OSError, ValueError, SafetensorError):
        return False
    states = [*path.glob("*.pt"), *path.glob("*.pth")]
    return (
        isinstance(state, dict)
        and bool(weights)
        and all(zipfile.is_zipfile(file) for file in states)
        and {"optimizer.pt", "scheduler.pt"} <= {file.name for file in states}
    )
