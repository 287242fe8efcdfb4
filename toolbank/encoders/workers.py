"""Embed texts in the workers of a Ray cluster, to which Ray Data sends batches."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.location import find_folder, name_identity
from toolbank.system.cluster import describe_room, join
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import require_library
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.encoders.base import Embedded, Encoder

_KEY = "encoder.executor"
# Ray Data logs each dataset, and makes Ray warn about arguments that it handles itself.
_QUIET = {"RAY_DATA_LOG_LEVEL": "ERROR", "RAY_BACKEND_LOG_LEVEL": "fatal"}
# Batches per block; those of a killed worker are embedded again.
_BATCHES = 4


def check_workers(config: EncoderConfig) -> None:
    """Check that Ray is installed if an encoder's settings need it.

    Raises:
        InputError: it is not installed.
    """
    if config.executor == "ray":
        require_library("ray", _KEY)


def embed_by_workers(name: str, encoder: Encoder, batches: list[list[str]]) -> Embedded:
    """Embed batches in worker processes; yield the number and the vectors of each when done.

    Each worker reads the encoder by `name`, a name or a folder. Batches are not split, so their
    vectors equal those of one process. If a worker is killed, Ray starts another one, which
    embeds its batches again.

    Raises:
        InputError: Ray is missing, the cluster cannot be joined, or a worker has no such encoder.
        ToolbankError: Ray gave up.
    """
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    is_own = join(encoder.config.workers, _KEY)
    import ray
    from ray.exceptions import RayError

    try:
        for row in _map(name, encoder, batches).iter_rows():
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


def _map(name: str, encoder: Encoder, batches: list[list[str]]) -> Any:
    """The dataset of the vectors of batches."""
    import ray

    if folder := find_folder(name):
        name = str(folder.resolve())
    workers = encoder.config.workers
    config = encoder.config.model_copy(update={"executor": "local", "workers": 1})
    rows = [{"batch": number, "texts": texts} for number, texts in enumerate(batches)]
    gpus = ray.cluster_resources().get("GPU", 0) / workers
    found = ray.data.from_items(
        rows, override_num_blocks=max(len(rows) // _BATCHES, min(workers, len(rows)))
    ).map(
        _Worker,
        fn_constructor_args=(
            type(encoder),
            name,
            config,
            name_identity(name),
            __version__,
        ),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        num_gpus=min(1, int(gpus * 1000) / 1000),
    )
    found.context.enable_progress_bars = False
    found.context.print_on_execution_start = False
    return found


class _Worker:
    """Read the encoder in a worker, and embed batches with it.

    A problem is returned as text: Ray would print an exception with all of its own frames.
    """

    def __init__(
        self,
        kind: type[Encoder],
        name: str,
        config: EncoderConfig,
        identity: str,
        version: str,
    ) -> None:
        self._problem = ""
        try:
            if version != __version__:
                raise InputError(f"has toolbank {__version__}, but {version} is needed")
            if name_identity(name) != identity:
                raise InputError(
                    f"{name} is another encoder there. Install the same on all nodes."
                )
            self._encoder = kind.read(name, config)
        except ToolbankError as error:
            self._problem = _describe(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the number of a batch, the bytes of its vectors, and a problem or ""."""
        vectors, problem = b"", self._problem
        if not problem:
            try:
                vectors = self._encoder.embed(list(row["texts"])).tobytes()
            except ToolbankError as error:
                problem = _describe(error)
        return {"batch": row["batch"], "vectors": vectors, "problem": problem}


def _describe(error: ToolbankError) -> str:
    return f"the worker {os.getpid()} on {platform.node()}: {error}"
