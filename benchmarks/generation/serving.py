"""The mock endpoint in a process of its own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SERVER = Path(__file__).with_name("server.py")


@dataclass(frozen=True)
class Served:
    """A running endpoint: its base URL (with the /v1) and its process."""

    url: str
    pid: int

    def stats(self) -> dict[str, Any]:
        """What was served since the last reset."""
        told: dict[str, Any] = json.loads(self._ask("stats", None))
        return told

    def reset(self) -> None:
        """Start the counts and the latencies anew."""
        self._ask("reset", b"")

    def _ask(self, name: str, data: bytes | None) -> bytes:
        address = self.url.removesuffix("v1") + name
        with urllib.request.urlopen(address, data, timeout=30) as reply:
            answer: bytes = reply.read()
        return answer


@contextmanager
def served(latency: float = 0.44, *, seed: int = 0) -> Iterator[Served]:
    """Serve while the `with` block runs."""
    command = [sys.executable, str(_SERVER), "--latency", str(latency)]
    process = subprocess.Popen(
        [*command, "--seed", str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C ends it by way of the caller
    )
    try:
        assert process.stdout is not None
        yield Served(process.stdout.readline().strip(), process.pid)
    finally:
        process.terminate()
        process.wait()
