"""Joining a Ray cluster, or starting one on this machine."""

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
from toolbank.system.extras import demand_library

_ADDRESS = "RAY_ADDRESS"
# Of the store that tasks share objects by: what goes to and from workers here is small.
_STORE_BYTES = 100 * 2**20
_PATIENCE_S = 10.0


def join(workers: int, key: str) -> bool:
    """Join the cluster that RAY_ADDRESS names, or else start one of this machine alone.

    One that is started has a CPU a worker; `key` is the setting that asks for them. Gives whether
    it was started here, so that who asked ends it by `ray.shutdown`. One that this process has
    joined before is used as it is. Ray's usage statistics are off.

    Raises:
        InputError: Ray is not installed, or no cluster answers at the address.
    """
    demand_library("ray", key)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    if ray.is_initialized():
        return False
    address = os.environ.get(_ADDRESS, "").strip()
    try:
        with _own_signals():
            if address:
                _refuse_silence(address)
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
    except Exception as error:  # a bare one where its own parts take more than 30 s
        if _is_for_want_of_a_token(error):
            raise InputError(
                f"{_ADDRESS}: the cluster at {address!r} wants its token. Set RAY_AUTH_MODE=token, "
                "and RAY_AUTH_TOKEN as on its nodes where ~/.ray/auth_token isn't the same."
            ) from error
        what = f"{_ADDRESS}: no cluster of Ray could be joined at {address!r}"
        if not address:
            what = f"{key}: Ray could not be started here"
        raise InputError(f"{what} ({error}).") from error
    return not address


def describe_room() -> str:
    """What the cluster has in all, such as "8 CPUs, 1 GPU"."""
    import ray

    has: dict[str, float] = ray.cluster_resources()
    return ", ".join(f"{has.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))


def _is_for_want_of_a_token(error: BaseException) -> bool:
    """Ray doesn't show a token to an address that it is given, unless RAY_AUTH_MODE says so.

    What it raises says "failed to connect"; why, stands in a text on the way there.
    """
    reasons = []
    at: BaseException | None = error
    while at is not None:
        reasons.append(f"{type(at).__name__}: {at}")
        at = at.__cause__ or at.__context__
    return any("AuthenticationError" in reason for reason in reasons)


def _refuse_silence(address: str) -> None:
    """Ray itself waits for minutes where nobody listens.

    Raises:
        OSError: nobody does.
    """
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname and place.port:
        with socket.create_connection((place.hostname, place.port), _PATIENCE_S):
            pass


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts handlers of its own in the place of ours; within the block alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
