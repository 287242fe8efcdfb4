"""Embedding by workers of a Ray cluster: Ray Data hands them batches, each has the encoder."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.location import find_folder, name_identity
from toolbank.system.cluster import describe_room, join
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import demand_library
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.encoders.base import Embedded, Encoder

_KEY = "encoder.executor"
# Ray Data tells of each dataset; and has Ray warn of arguments, which it takes care of itself.
_QUIET = {"RAY_DATA_LOG_LEVEL": "ERROR", "RAY_BACKEND_LOG_LEVEL": "fatal"}
# Handed over together; a worker that is killed has as many embedded again.
_BATCHES = 4


@dataclass(frozen=True)
class _Wanted:
    """The encoder that a worker is to have: its class, what that reads, and who it is."""

    kind: type[Encoder]
    name: str
    config: EncoderConfig
    identity: str
    version: str


def check_workers(config: EncoderConfig) -> None:
    """Refuse to go on without Ray where an encoder's settings need it.

    Raises:
        InputError: it is not installed.
    """
    if config.executor == "ray":
        demand_library("ray", _KEY)


def embed_by_workers(name: str, encoder: Encoder, batches: list[list[str]]) -> Embedded:
    """Have `workers` processes embed batches; gives each one's number and vectors as they come.

    `name` is the name or the folder that the encoder was read by, and is read by there.
    The batches stay as they are, so that their vectors are those of one process. Where a worker
    is killed, Ray starts another, and has its batches embedded again.

    Raises:
        InputError: Ray is missing, the cluster can't be joined, or a worker has no such encoder.
        ToolbankError: Ray gave up.
    """
    config = encoder.config
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    is_own = join(config.workers, _KEY)
    import ray
    from ray.exceptions import RayError

    try:
        for row in _map(_want(name, encoder), batches, config.workers).iter_rows():
            if row["problem"]:
                raise InputError(f"{_KEY}: {row['problem']}")
            vectors = np.frombuffer(row["vectors"], np.float32)
            yield row["batch"], vectors.reshape(-1, encoder.dimension)
    except RayError as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise ToolbankError(
            f"{_KEY}: Ray gave up ({why[-1]}); the cluster has "
            f"{describe_room()}. Its logs are in /tmp/ray of each node."
        ) from error
    finally:
        if is_own:
            ray.shutdown()


def _want(name: str, encoder: Encoder) -> _Wanted:
    if folder := find_folder(name):
        name = str(folder.resolve())
    config = encoder.config.model_copy(update={"executor": "local", "workers": 1})
    return _Wanted(type(encoder), name, config, name_identity(name), __version__)


def _map(wanted: _Wanted, batches: list[list[str]], workers: int) -> Any:
    """The dataset of what comes of batches."""
    import ray

    rows = [{"batch": number, "texts": texts} for number, texts in enumerate(batches)]
    blocks = max(len(rows) // _BATCHES, min(workers, len(rows)))
    gpus = ray.cluster_resources().get("GPU", 0) / workers
    found = ray.data.from_items(rows, override_num_blocks=blocks).map(
        _Worker,
        fn_constructor_args=(wanted,),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        num_gpus=min(1, int(gpus * 1000) / 1000),
    )
    found.context.enable_progress_bars = False
    found.context.print_on_execution_start = False
    return found


class _Worker:
    """Reads the encoder where it runs, and embeds what it is given.

    What it can't do it says, as a raised error would be told with all of Ray's frames.
    """

    def __init__(self, wanted: _Wanted) -> None:
        self._problem = ""
        try:
            self._encoder = _read(wanted)
        except ToolbankError as error:
            self._problem = _say(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The number of a batch, its vectors' bytes, and what was in the way, if anything."""
        vectors, problem = b"", self._problem
        if not problem:
            try:
                vectors = self._encoder.embed(list(row["texts"])).tobytes()
            except ToolbankError as error:
                problem = _say(error)
        return {"batch": row["batch"], "vectors": vectors, "problem": problem}


def _read(wanted: _Wanted) -> Encoder:
    if wanted.version != __version__:
        raise InputError(f"has toolbank {__version__}, and {wanted.version} is wanted")
    if name_identity(wanted.name) != wanted.identity:
        raise InputError(
            f"{wanted.name} is another encoder there. Install the same on all nodes."
        )
    return wanted.kind.read(wanted.name, wanted.config)


def _say(error: ToolbankError) -> str:
    return f"the worker {os.getpid()} on {platform.node()}: {error}"
