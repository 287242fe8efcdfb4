"""How near to the endpoint's own speed does toolbank generate, and how near do others?

    python benchmarks/generation/run.py [--scratch FOLDER] [--rows 3000] [--ideal-rows 10000]
        [--in-flight 256] [--levels 64 256 512 1000] [--runs 3] [--only toolbank pool ...]
        [--beside PYTHON]

The endpoint is server.py, in a process of its own on loopback: it answers after a log-normal latency with
a mean of 0.44 s. *Ideal* is the sum of the latencies drawn, divided by the calls in flight: no client can
take less than that. Every row is two calls, the second of which needs the answer to the first: toolbank's real
prompts on NumPy, 9.2 and 2.9 kB on average. The peers send the same prompts, rendered beforehand, as plain
text: they neither make prompts nor ask for a schema nor check what comes.

First, `--rows` rows by each (toolbank, its peers and a bare worker pool) with `--in-flight` calls in flight; then
`--ideal-rows` rows by toolbank and the pool at each of `--levels`. `--beside` names the Python of
another version's environment, which then takes part as `beside`. All in turn, `--runs` times, each time
beginning with another; a row of a table is the run with the middle time. toolbank is the real command, `toolbank generate`, with its journal, checks and progress
bar on, in a new run folder in which the tools are collected; the peers are drivers/with_*.py, each in its own
virtual environment, with caches as they come and new each time. All run in a terminal (pty).

- *start*: until the first request; *calling*: from the first request to the last answer; *whole*: the command
- *share*: ideal by calling, and by whole
- *CPU a call*: user and system time with all children: less what was taken before the first request; and whole
- *peak*: resident memory (PSS), all processes of the command together, looked at ten times a second
- *yardstick*: CPU time of a fixed piece of Python just before; on a shared machine it says how fast that was

The virtual environments (2.4 GB) and all that is written lie under `--scratch`; what is installed there already is
used. It takes 40 minutes; Ctrl-C ends it with the tables of what there is. What fails is told and left out. On
few cores the endpoint and the client share them: keep the machine quiet, and see the endpoint's CPU and lag
in the last columns. Linux only.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from environments import REQUIREMENTS, make_environment
from measuring import FailedError, Measured, measure
from serving import Served, served
from workload import ENTRY, TOOLBANK, generation, write_recipe, write_rows

_DRIVERS = Path(__file__).with_name("drivers")
_AT_EACH_LEVEL = ("toolbank", "beside", "pool")
_ALL = ("toolbank", *REQUIREMENTS)

_COLUMNS: dict[str, Callable[[Measured], str]] = {
    "start s": lambda run: f"{run.start_s:.1f}",
    "calling s": lambda run: f"{run.calling_s:.1f}",
    "whole s": lambda run: f"{run.wall_s:.1f}",
    "ideal s": lambda run: f"{run.ideal_s:.1f}",
    "share, calling %": lambda run: f"{100 * run.calling_share:.1f}",
    "share, whole %": lambda run: f"{100 * run.share:.1f}",
    "CPU ms a call, calling": lambda run: f"{run.loop_cpu_ms:.2f}",
    "CPU ms a call, whole": lambda run: f"{run.cpu_ms:.2f}",
    "peak MB": lambda run: f"{run.peak_mb:.0f}",
    "calls": lambda run: f"{run.calls:,}",
    "most in flight": lambda run: f"{run.most_in_flight:,}",
    "endpoint CPU s": lambda run: f"{run.server_cpu_s:.1f}",
    "its lag ms": lambda run: f"{run.server_lag_ms:.1f}",
    "yardstick s": lambda run: f"{run.yardstick_s:.2f}",
}


def main() -> None:
    given = read_arguments()
    folder = given.scratch or Path(tempfile.gettempdir(), "toolbank-speed")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    pythons = {n: make_environment(n, folder) for n in given.only if n != "toolbank"}
    recipe = write_recipe(folder)
    commands = {"toolbank": (recipe, TOOLBANK)}
    if given.beside:
        other = (str(given.beside.absolute()), *ENTRY)
        commands["beside"] = (write_recipe(folder / "beside", other), other)
    taking_part = [*given.only, *(name for name in commands if name not in given.only)]
    works = [(name, given.rows, given.in_flight) for name in taking_part if given.rows]
    works += [
        (name, given.ideal_rows, level)
        for level in given.levels
        for name in _AT_EACH_LEVEL
        if name in taking_part
    ]
    rows = {count: write_rows(folder, count) for _, count, _ in works if pythons}
    runs: dict[tuple[str, int, int], list[Measured]] = {work: [] for work in works}
    banks: dict[tuple[str, int], set[str]] = {}
    with served() as endpoint, suppress(KeyboardInterrupt):
        for number in range(given.runs):
            turn = number % len(works)
            for name, count, in_flight in works[turn:] + works[:turn]:
                load = os.getloadavg()[0]
                told = (
                    f"run {number + 1}, {name}, {count:,} rows, {in_flight:,} in flight"
                )
                try:
                    if name in commands:
                        run, made = generate(
                            *commands[name], count, in_flight, endpoint
                        )
                        banks.setdefault((name, count), set()).add(made)
                    else:
                        run = drive(
                            name, pythons, rows[count], in_flight, folder, endpoint
                        )
                except FailedError as error:
                    print(f"{told}: FAILED, {error}", file=sys.stderr)
                    continue
                runs[name, count, in_flight].append(run)
                print(
                    f"{told}: {run.wall_s:.1f} s, {100 * run.calling_share:.1f} % of "
                    f"ideal, {run.loop_cpu_ms:.2f} ms a call; load before {load:.2f}",
                    file=sys.stderr,
                )
    print(f"{machine()}; {given.runs} runs. {versions(pythons)}.\n")
    first = works[: len(taking_part)] if given.rows else []
    if first:
        print(table(f"{given.rows:,} rows", first, runs))
    if works[len(first) :]:
        print(table(f"{given.ideal_rows:,} rows", works[len(first) :], runs))
    for (name, count), hashes in banks.items():
        same = "the same bytes in" if len(hashes) == 1 else "NOT the same bytes in"
        print(f"{name}'s {count:,} queries: {same} all runs.")


def generate(
    recipe: Path, command: Sequence[str], rows: int, in_flight: int, endpoint: Served
) -> tuple[Measured, str]:
    """One run of the real command, and the hash of the queries that it wrote."""
    folder, call = generation(recipe, endpoint.url, rows, in_flight, command)
    run = measure(call, endpoint, in_flight=in_flight, folder=recipe.parent)
    return run, bank_hash(folder, rows)


def drive(
    name: str,
    pythons: dict[str, Path],
    rows: Path,
    in_flight: int,
    folder: Path,
    endpoint: Served,
) -> Measured:
    """One run of a peer, in a new folder of its own."""
    driver = _DRIVERS / f"with_{name}.py"
    return measure(
        [str(pythons[name]), str(driver), endpoint.url, str(rows), str(in_flight)],
        endpoint,
        in_flight=in_flight,
        folder=new_folder(folder / "peer"),
    )


def bank_hash(run: Path, rows: int) -> str:
    """SHA-256 of the queries.

    Raises:
        FailedError: there are fewer than were asked for, or it took more attempts.
    """
    counts = json.loads((run / "bank" / "bank.json").read_text())["counts"]
    if counts["accepted"] != rows or counts["attempts"] != rows:
        raise FailedError(f"not all attempts were accepted: {counts}")
    queries = (run / "bank" / "queries.parquet").read_bytes()
    return hashlib.sha256(queries).hexdigest()


def table(
    title: str,
    works: Sequence[tuple[str, int, int]],
    runs: dict[tuple[str, int, int], list[Measured]],
) -> str:
    """Of each the run with the middle time, as Markdown; and the times of all."""
    lines = [
        f"| {title} | in flight | {' | '.join(_COLUMNS)} | whole s, all runs |",
        "|---" * (len(_COLUMNS) + 3) + "|",
    ]
    for work in works:
        done = sorted(runs[work], key=lambda run: run.wall_s)
        if not done:
            continue
        middle = done[len(done) // 2]
        cells = [show(middle) for show in _COLUMNS.values()]
        walls = ", ".join(f"{run.wall_s:.1f}" for run in runs[work])
        lines.append(f"| {work[0]} | {work[2]:,} | {' | '.join(cells)} | {walls} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What this ran on, and when."""
    cpus = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpus)
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return (
        f"{os.cpu_count()} cores of {model[1] if model else platform.processor()}, "
        f"{int(memory[1]) / 2**20 if memory else 0:.0f} GB, Python {platform.python_version()}, "
        f"{datetime.datetime.now(datetime.UTC).date()}"
    )


def versions(pythons: dict[str, Path]) -> str:
    """What the peers' environments hold."""
    return "; ".join(
        f"{name}: {', '.join(REQUIREMENTS[name])}".replace("==", " ")
        for name in pythons
    )


def new_folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--ideal-rows", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--levels", type=int, nargs="*", default=[64, 256, 512, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=_ALL, default=list(_ALL))
    parser.add_argument("--beside", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
