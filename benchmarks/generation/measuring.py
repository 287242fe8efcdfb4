"""One command in a terminal of its own: how long, how much CPU and memory. Linux only."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from serving import Served

_SECONDS_BETWEEN_LOOKS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_WINDOW = struct.pack("HHHH", 40, 120, 0, 0)


class FailedError(Exception):
    """The command failed; the message holds the end of what it said."""


@dataclass(frozen=True)
class Measured:
    """One run. Times in seconds; CPU is user and system time of the command and its children.

    `wall_s` and `cpu_s` are the whole command's. Before its first request lie `start_s` of that
    (interpreter, imports, reading), and `calling_s` between that and the last answer. `loop_cpu_s` is
    all but the CPU before the first request (known to a tenth of a second). `yardstick_s` is the CPU
    time of a fixed piece of Python just before: where the machine is shared, it says how fast it was.
    """

    calls: int
    ideal_s: float
    wall_s: float
    start_s: float
    calling_s: float
    cpu_s: float
    loop_cpu_s: float
    server_cpu_s: float
    server_lag_ms: float
    most_in_flight: int
    peak_mb: float
    yardstick_s: float
    said: str

    @property
    def share(self) -> float:
        """Of the ideal, by the whole command."""
        return self.ideal_s / self.wall_s

    @property
    def calling_share(self) -> float:
        """Of the ideal, from the first request to the last answer."""
        return self.ideal_s / self.calling_s

    @property
    def cpu_ms(self) -> float:
        """Of the whole command, a call."""
        return 1000 * self.cpu_s / self.calls

    @property
    def loop_cpu_ms(self) -> float:
        """From the first request to the command's end, a call."""
        return 1000 * self.loop_cpu_s / self.calls


def measure(
    command: Sequence[str],
    served: Served,
    *,
    in_flight: int,
    folder: Path,
) -> Measured:
    """Run a command that sends its calls to `served`.

    Raises:
        FailedError: it failed, or sent none.
    """
    yardstick = _time_yardstick()
    served.reset()
    server_before = cpu_s(served.pid)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, _WINDOW)
    said: list[bytes] = []
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=_drain, args=(ours, said), daemon=True)
    reader.start()
    before_loop, peak = 0.0, 0.0
    looping = False
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            pids = tree(process.pid)
            peak = max(peak, sum(map(proportional_mb, pids)))
            if not looping:
                before_loop = sum(map(cpu_s, pids))
                looping = served.stats()["calls"] > 0
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join(timeout=5)
    text = b"".join(said).decode(errors="replace")
    stats = served.stats()
    if process.returncode or not stats["calls"]:
        raise FailedError(
            f"{' '.join(command)}\nexit code {process.returncode}\n{text[-5000:]}"
        )
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(
        calls=stats["calls"],
        ideal_s=stats["latency_s"] / in_flight,
        wall_s=wall,
        # Both processes read the same clock.
        start_s=stats["first_s"] - started,
        calling_s=stats["span_s"],
        cpu_s=cpu,
        loop_cpu_s=cpu - before_loop,
        server_cpu_s=cpu_s(served.pid) - server_before,
        server_lag_ms=1000 * stats["lag_s"] / stats["calls"],
        most_in_flight=stats["most_in_flight"],
        peak_mb=peak,
        yardstick_s=yardstick,
        said=text,
    )


def _time_yardstick() -> float:
    begun = time.process_time()
    sum(number * number for number in range(5_000_000))
    return time.process_time() - begun


def _drain(terminal: int, said: list[bytes]) -> None:
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            os.close(terminal)
            return
        said.append(data)


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def cpu_s(pid: int, *, children: bool = True) -> float:
    """Seconds of CPU that a process took, and those of its `children` that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if children else 13])) / _TICKS


def proportional_mb(pid: int) -> float:
    """Resident memory of a process; of pages that it shares, its share."""
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    kilobytes = re.search(r"^Pss:\s+(\d+)", told, re.MULTILINE)
    return int(kilobytes[1]) / 1024 if kilobytes else 0.0
