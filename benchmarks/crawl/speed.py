"""How fast does a site crawl from loopback, and in how much memory?

    python benchmarks/crawl/speed.py numpy=PAGES pandas=PAGES boto3=PAGES

PAGES is the folder that the site's objects.inv lies in. The pages are served by another process; each
crawl is a fresh process with an empty cache, no throttling (loopback has none by default); the second
crawl goes to the same folder. Linux only: memory is read from /proc. On two cores the server, the crawl
and this script share them.
"""

import argparse
import filecmp
import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from serve import Served, serve

_COMMAND = [
    sys.executable,
    "-c",
    "from toolbank.commands.cli import main; main()",
    "crawl",
]
_SECONDS_BETWEEN_LOOKS = 0.05
_QUARTERS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Crawl:
    """One crawl: `seconds` are the command's, `crawling` those it says it took for the pages."""

    pages: int
    seconds: float
    crawling: float
    requests: int
    peak_mb: float
    quarters_mb: tuple[float, ...]


def main() -> None:
    arguments = read_arguments()
    lines = []
    for site, _, folder in (item.partition("=") for item in arguments.sites):
        with serve(Path(folder)) as served, tempfile.TemporaryDirectory() as made:
            alone = serve_speed(Path(folder), served)
            runs = []
            for number in range(arguments.runs):
                load = os.getloadavg()[0]
                out = Path(made) / str(number)
                runs.append(crawl(site, served, out))
                print(f"{site} run {number + 1}: {runs[-1]}, load before {load:.2f}")
            kept = out / "tools.parquet"
            first = kept.rename(out / "first.parquet")
            again = crawl(site, served, out)
            same = filecmp.cmp(kept, first, shallow=False)
            print(f"{site} from the cache: {again}, same bytes: {same}")
        lines.append(row(site, runs, again, alone))
    print(
        "\n| site | pages | wall s (runs) | pages/s by the wall | pages/s while crawling "
        "| peak MB | MB at 25/50/75/100 % of pages | again s | requests sent again "
        "| server alone pages/s |\n" + "|---" * 10 + "|"
    )
    print("\n".join(lines))


def crawl(site: str, served: Served, out: Path) -> Crawl:
    """Run the command in a process of its own, and watch its memory."""
    before, started = served.requests(), time.perf_counter()
    command = [*_COMMAND, site, "--base-url", served.url, "--out", str(out)]
    looks: list[tuple[int, float]] = []
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            looks.append((served.requests() - before, resident_mb(process.pid)))
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{text}")
    told = re.search(r"([\d,]+) pages in ([\d.]+) s", text)
    if told is None:
        sys.exit(f"No count of pages in: {text}")
    pages, requests = int(told[1].replace(",", "")), served.requests() - before
    return Crawl(
        pages=pages,
        seconds=round(seconds, 2),
        crawling=float(told[2]),
        requests=requests,
        peak_mb=round(usage.ru_maxrss / 1024, 1),
        quarters_mb=tuple(
            next((mb for count, mb in looks if count >= share * requests), 0.0)
            for share in _QUARTERS
        ),
    )


def resident_mb(pid: int) -> float:
    """Memory that a process holds now, in MB; 0 where it has just ended."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return round(int(found[1]) / 1024, 1) if found else 0.0


def serve_speed(folder: Path, served: Served, pages: int = 400) -> float:
    """Pages a second that the server gives to a client that does nothing with them."""
    files = sorted(folder.rglob("*.html"))
    random.Random(0).shuffle(files)
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc)
    started = time.perf_counter()
    for file in files[:pages]:
        connection.request("GET", f"/{file.relative_to(folder).as_posix()}")
        connection.getresponse().read()
    seconds = time.perf_counter() - started
    connection.close()
    return min(pages, len(files)) / seconds


def row(site: str, runs: list[Crawl], again: Crawl, alone: float) -> str:
    """The middle of the runs, and each run's wall time."""
    wall = ", ".join(f"{run.seconds:.1f}" for run in runs)
    quarters = "/".join(
        f"{median(values):.0f}"
        for values in zip(*(run.quarters_mb for run in runs), strict=True)
    )
    rate = median(run.pages / run.seconds for run in runs)
    crawling = median(run.pages / run.crawling for run in runs)
    return (
        f"| {site} | {runs[0].pages} | {wall} | {rate:.0f} | {crawling:.0f} "
        f"| {max(run.peak_mb for run in runs):.0f} | {quarters} "
        f"| {again.seconds:.1f} | {again.requests} | {alone:.0f} |"
    )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", nargs="+", metavar="SITE=PAGES")
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
