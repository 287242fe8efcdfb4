"""What do memory and time a query do while a bank grows?

    python benchmarks/generation/memory.py [--scratch FOLDER] [--queries 5000 20000 100000] [--in-flight 256]
        [--beside PYTHON]

The real command, `toolbank generate`, with its journal, checks and progress, against server.py, which answers
at once. `--beside` names the Python of another version's environment, which then does the same. Each size is a process of its own in a new run folder in which the tools are collected.

- *peak*: most resident memory (VmHWM, as the kernel counted it), in all and less that of the smallest size
- *calling*: microseconds of wall time a query between the first request and the last answer
- *whole*: the command's wall time and CPU time (user and system) a query, its start included
- *journal*: its size on disk, a query

100,000 queries take 4 to 8 minutes and 1 GB on disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from serving import Served, served
from workload import ENTRY, TOOLBANK, generation, write_recipe


@dataclass(frozen=True)
class Measured:
    """One size. Times in seconds."""

    queries: int
    peak_mb: float
    calling_s: float
    wall_s: float
    cpu_s: float
    journal_mb: float


def main() -> None:
    given = read_arguments()
    folder = given.scratch or Path(tempfile.gettempdir(), "toolbank-memory")
    folder.mkdir(parents=True, exist_ok=True)
    commands = {"toolbank": TOOLBANK}
    if given.beside:
        commands["beside"] = (str(given.beside.absolute()), *ENTRY)
    runs: dict[str, list[Measured]] = {}
    with served(latency=0) as endpoint:
        for name, command in commands.items():
            recipe = write_recipe(folder.resolve() / name, command)
            for queries in given.queries:
                run = measure(recipe, queries, given.in_flight, endpoint, command)
                runs.setdefault(name, []).append(run)
                print(f"{name}, {queries:,}: {run}", file=sys.stderr)
    for name, done in runs.items():
        print(f"{name}\n\n{table(done)}\n")


def measure(
    recipe: Path,
    queries: int,
    in_flight: int,
    endpoint: Served,
    toolbank: Sequence[str],
) -> Measured:
    """Run the command once; exits with its output where it fails or leaves something out."""
    run, command = generation(recipe, endpoint.url, queries, in_flight, toolbank)
    endpoint.reset()
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=run.parent)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        said.seek(0)
        if status:
            sys.exit(said.read().decode())
    counts = json.loads((run / "bank" / "bank.json").read_text())["counts"]
    if counts["accepted"] != queries:
        sys.exit(f"{counts}, and {queries} queries were wanted")
    return Measured(
        queries=queries,
        peak_mb=used.ru_maxrss / 1024,
        calling_s=endpoint.stats()["span_s"],
        wall_s=wall,
        cpu_s=used.ru_utime + used.ru_stime,
        journal_mb=(run / "journal.sqlite").stat().st_size / 2**20,
    )


def table(runs: list[Measured]) -> str:
    """A line a size, as Markdown."""
    head = "queries|peak MB|growth MB|calling us|whole us|CPU us|journal kB"
    lines = [f"| {' | '.join(head.split('|'))} |", "|---:" * 7 + "|"]
    for run in runs:
        each = [run.calling_s, run.wall_s, run.cpu_s]
        cells = [
            f"{run.queries:,}",
            f"{run.peak_mb:.0f}",
            f"{run.peak_mb - runs[0].peak_mb:.0f}",
            *(f"{1e6 * seconds / run.queries:,.0f}" for seconds in each),
            f"{1024 * run.journal_mb / run.queries:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scratch", type=Path)
    parser.add_argument(
        "--queries", type=int, nargs="+", default=[5000, 20_000, 100_000]
    )
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--beside", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
