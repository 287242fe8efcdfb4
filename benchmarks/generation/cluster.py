"""What do calls by workers of a Ray cluster cost, beside those of one process?

    python benchmarks/generation/cluster.py [--scratch FOLDER] [--rows 3000] [--in-flight 512]
        [--workers 1 2] [--once 4] [--runs 3]

The real command, `toolbank generate`, against server.py, which answers after a log-normal latency with a mean
of 0.44 s: by `executor: local`, and by `executor: ray` with so many workers on a cluster that the command starts
on this machine. All in turn, `--runs` times; those of `--once` a single time, for their bytes. A row is the run with the middle CPU.

- *calls a second*: from the first request to the last answer
- *CPU ms a call*: user and system time from the first request to the command's end, by whose it is: the *driver*
  (the command itself: prompts, checks, journal), the *workers* together, *Ray's own* (its store, scheduler, agents), and
  the *server*, which is no part of either. Looked at twenty times a second in /proc.
- *start*: until the first request
- *peak*: resident memory (PSS) of the driver, of a worker, and of Ray's own processes together

Driver, workers and server share the cores of the machine: on few of them workers can't show more calls a second.
Linux only.
"""

import argparse
import hashlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measuring import FailedError, cpu_s, proportional_mb, tree
from serving import Served, served
from workload import generation, write_recipe

_ROLES = ("driver", "workers", "Ray's own")
_SECONDS_BETWEEN_LOOKS = 0.05
_LOOKS_BETWEEN_SIZES = 20


@dataclass
class Measured:
    """One run: CPU seconds by role from its first request on, and most megabytes by role."""

    calls: int
    span_s: float
    start_s: float
    server_cpu_s: float
    bank: str
    cpu: Counter[str] = field(default_factory=Counter)
    peak_mb: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.span_s

    @property
    def own_cpu_s(self) -> float:
        """CPU seconds of all but the server."""
        return sum(self.cpu.values())


def main() -> None:
    given = read_arguments()
    folder = (
        given.scratch or Path(tempfile.gettempdir(), "toolbank-cluster")
    ).resolve()
    recipe = write_recipe(folder)
    levels = [0, *given.workers]
    turns = [level for _ in range(given.runs) for level in levels] + given.once
    runs: dict[int, list[Measured]] = {}
    with served() as endpoint:
        for workers in turns:
            load = os.getloadavg()[0]
            try:
                run = measure(recipe, given.rows, given.in_flight, workers, endpoint)
            except FailedError as error:
                print(f"{name_of(workers)}: FAILED, {error}", file=sys.stderr)
                continue
            runs.setdefault(workers, []).append(run)
            print(f"{name_of(workers)}, load before {load:.2f}: {run}", file=sys.stderr)
    print(table(runs))
    banks = {run.bank for done in runs.values() for run in done}
    print(f"\n{'NOT the same' if len(banks) > 1 else 'The same'} bytes in all runs.")


def measure(
    recipe: Path, rows: int, in_flight: int, workers: int, endpoint: Served
) -> Measured:
    """Run the command once.

    Raises:
        FailedError: it failed; the message is what it said.
    """
    more = {"executor": "ray", "workers": workers} if workers else {}
    run, command = generation(recipe, endpoint.url, rows, in_flight, **more)
    endpoint.reset()
    server_before = cpu_s(endpoint.pid)
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    roles: dict[int, str] = {}
    peaks: Counter[str] = Counter()
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=run.parent)
        looks = 0
        try:
            while process.poll() is None:
                pids = tree(process.pid)
                if not first and endpoint.stats()["calls"]:
                    first = {pid: cpu_s(pid, children=False) for pid in pids}
                for pid in pids:
                    roles.setdefault(pid, "")
                    roles[pid] = role_of(pid, process.pid) or roles[pid]
                    used = cpu_s(pid, children=False)
                    last[pid] = max(last.get(pid, 0.0), used)
                if looks % _LOOKS_BETWEEN_SIZES == 0:
                    note_sizes(pids, roles, peaks)
                looks += 1
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        except BaseException:
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        said.seek(0)
        if process.returncode:
            raise FailedError(said.read().decode())
    stats = endpoint.stats()
    cpu: Counter[str] = Counter()
    for pid, seconds in last.items():
        cpu[roles[pid]] += seconds - first.get(pid, 0.0)
    queries = (run / "bank" / "queries.parquet").read_bytes()
    return Measured(
        calls=stats["calls"],
        span_s=stats["span_s"],
        start_s=stats["first_s"] - begun,
        server_cpu_s=cpu_s(endpoint.pid) - server_before,
        bank=hashlib.sha256(queries).hexdigest()[:16],
        cpu=cpu,
        peak_mb=peaks,
    )


def role_of(pid: int, driver: int) -> str:
    """Whose a process is, by its title; "" of one that has ended."""
    if pid == driver:
        return "driver"
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    if not title:  # it has ended, and nobody has taken note yet
        return ""
    return "workers" if b"EngineWorker" in title else "Ray's own"


def note_sizes(pids: list[int], roles: dict[int, str], peaks: Counter[str]) -> None:
    """Keep the most memory of each role; of workers, that of the largest one."""
    now: Counter[str] = Counter()
    for pid in pids:
        size = proportional_mb(pid)
        role = roles[pid]
        now[role] = max(now[role], size) if role == "workers" else now[role] + size
    for role, size in now.items():
        peaks[role] = max(peaks[role], round(size))


def table(runs: dict[int, list[Measured]]) -> str:
    """A line each, as Markdown: the run with the middle CPU, and the rates of all."""
    head = ["", "calls a second (all runs)", "CPU ms a call (all runs)", *_ROLES]
    head += ["server", "start s", *(f"peak MB, {role}" for role in _ROLES)]
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    for workers, done in runs.items():
        middle = statistics.median_low([run.own_cpu_s for run in done])
        run = next(run for run in done if run.own_cpu_s == middle)
        each = 1000 / run.calls
        costs = ", ".join(f"{1000 * one.own_cpu_s / one.calls:.2f}" for one in done)
        cells = [
            name_of(workers),
            f"{run.rate:.0f} ({', '.join(f'{one.rate:.0f}' for one in done)})",
            f"{each * run.own_cpu_s:.2f} ({costs})",
            *(f"{each * run.cpu[role]:.2f}" for role in _ROLES),
            f"{each * run.server_cpu_s:.2f}",
            f"{run.start_s:.1f}",
            *(f"{run.peak_mb[role]:.0f}" for role in _ROLES),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def name_of(workers: int) -> str:
    return f"ray, {workers} workers" if workers else "local"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--once", type=int, nargs="*", default=[4])
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
