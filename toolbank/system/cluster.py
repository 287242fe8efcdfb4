"""Join a Ray cluster, or start one on this machine."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from toolbank.system.errors import InputError
from toolbank.system.extras import require_library

_ADDRESS = "RAY_ADDRESS"
# Workers exchange small objects only.
_STORE_BYTES = 100 * 2**20
_PATIENCE_S = 10.0


def join(workers: int, key: str) -> bool:
    """Join the cluster at RAY_ADDRESS, or else start one on this machine with a CPU per worker.

    A cluster that this process has joined before is reused. Ray's usage statistics are off. `key` is
    the setting that requires Ray.

    Returns:
        Whether it was started here; then the caller has to call `ray.shutdown`.

    Raises:
        InputError: Ray is not installed, or no cluster answers at the address.
    """
    require_library("ray", key)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    if ray.is_initialized():
        return False
    address = os.environ.get(_ADDRESS, "").strip()
    try:
        with _own_signals():
            if address:
                _check_listener(address)
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            else:
                ray.init(
                    "local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=_STORE_BYTES,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
    except Exception as error:  # a bare one if Ray takes more than 30 s to start
        if not address:
            raise InputError(
                f"{key}: Ray could not be started here ({error})."
            ) from error
        raise InputError(
            f"{_ADDRESS}: no cluster of Ray could be joined at {address!r} ({error}). If it "
            "requires a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN as on its nodes unless "
            "~/.ray/auth_token has it."
        ) from error
    return not address


def describe_room() -> str:
    """Describe the resources of the cluster, such as "8 CPUs, 1 GPU"."""
    import ray

    has: dict[str, float] = ray.cluster_resources()
    return ", ".join(f"{has.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))


def _check_listener(address: str) -> None:
    """Check that something listens at the address; Ray would wait for minutes.

    Raises:
        OSError: nothing does.
    """
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname and place.port:
        with socket.create_connection((place.hostname, place.port), _PATIENCE_S):
            pass


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces in the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
