"""Is a checkout as fast as another? Both do the same work, in turn, seven times each.

    python benchmarks/pairs.py OLD NEW [--pages FOLDER] [--only generation cold ...] [--pairs 7]

Each checkout has its own `.venv` with the extras `all`. FOLDER is one that an objects.inv lies in; without it
nothing is crawled. What is measured, in seconds of the clock, and of the CPU with all child processes:

- generation: `run --until generate` of 1,500 requests by a server on this machine that answers at once; 64 calls
  at a time, 300 tools. It is the whole command.
- help, schema, plan, search: a command's start; `search` is in a packed BM25 finder of 300 tools.
- get: the median of 300 GET /search of a packed BM25 finder of 1,600 tools, one after the other. Its CPU is
  that of the server for all of them.
- crawl: `crawl --sphinx` of the pages, served from this machine, with an empty cache.
- openapi: `run --until sources` of a description with 1,500 operations.

The first pair warms up and is not counted. The two begin in turn. A ratio is new / old of a pair; its median has a
95 % interval by the bootstrap. Keep the machine quiet.
"""

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE / "crawl")]

from serve import serve  # noqa: E402
from structure import get, model_server, wait_for  # noqa: E402

VERBS = [
    "open",
    "close",
    "read",
    "write",
    "list",
    "find",
    "count",
    "sort",
    "merge",
    "split",
    "lock",
    "move",
]
NOUNS = [
    "door",
    "order",
    "invoice",
    "ticket",
    "album",
    "route",
    "sensor",
    "meeting",
    "parcel",
    "account",
]
THINGS = ["name", "size", "owner", "date", "state", "price"]
Measured = tuple[float, float]
Work = Callable[[str], Measured]


def make_functions(n: int) -> str:
    """A JSON list of functions, each with two parameters."""
    functions = []
    for number in range(n):
        verb = VERBS[number % 12]
        noun = NOUNS[number // 12 % 10]
        part = f"{THINGS[number // 120 % 6]}_{number // 720}"
        properties = {
            name: {"type": "string", "description": f"The {name} of the {noun}."}
            for name in (noun, part)
        }
        functions.append(
            {
                "name": f"{verb}_{noun}_{part}",
                "description": f"{verb.capitalize()} the {part.replace('_', ' ')} of a {noun}.",
                "parameters": {"type": "object", "properties": properties},
            }
        )
    return json.dumps(functions)


def make_description(n: int) -> str:
    """An OpenAPI description of `n` operations with bodies, references and responses."""
    schema = {
        "type": "object",
        "properties": {
            thing: {"type": "string", "description": thing} for thing in THINGS
        },
    }
    paths: dict[str, dict[str, object]] = {}
    for number in range(n):
        verb, noun = VERBS[number % 12], NOUNS[number // 12 % 10]
        reference = {"$ref": f"#/components/schemas/Part{number % 50}"}
        paths[f"/{noun}s/{{id}}/{verb}{number}"] = {
            "post": {
                "operationId": f"{verb}_{noun}_{number}",
                "summary": f"{verb.capitalize()} {noun} number {number}",
                "parameters": [
                    {
                        "name": "id",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "integer"},
                    },
                    {"name": "dry", "in": "query", "schema": {"type": "boolean"}},
                ],
                "requestBody": {"content": {"application/json": {"schema": reference}}},
                "responses": {
                    "200": {
                        "description": "done",
                        "content": {"application/json": {"schema": reference}},
                    }
                },
            }
        }
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Things", "version": "1"},
            "paths": paths,
            "components": {"schemas": {f"Part{k}": schema for k in range(50)}},
        }
    )


def write_recipe(folder: Path, name: str, **keys: object) -> Path:
    recipe = {"name": name, "baselines": False, "retrievers": ["bm25"], **keys}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(recipe))
    return path


class Bench:
    """The work of both sides, and what each took."""

    def __init__(self, sides: dict[str, Path], folder: Path, stack: ExitStack) -> None:
        self.sides = sides
        self.folder = folder
        self.stack = stack
        self.number = 0

    def run(self, side: str, *arguments: object) -> Measured:
        """Seconds of the clock and of the CPU that a command takes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(
            [self.sides[side] / ".venv/bin/toolbank", *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        took = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{side}: {arguments}: {done.stderr}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return took, cpu

    def new_folder(self) -> Path:
        self.number += 1
        return self.folder / f"out-{self.number}"

    def pack(self, side: str, tools: int) -> Path:
        """A BM25 finder that this side has packed."""
        target = self.folder / f"pack-{side}-{tools}"
        if not target.exists():
            functions = self.folder / f"{tools}.json"
            functions.write_text(make_functions(tools))
            recipe = write_recipe(
                self.folder,
                f"pack{tools}",
                sources=[{"type": "functions", "path": functions.name}],
                generate={"engine": "rules", "queries": 60},
            )
            run = self.new_folder()
            self.run(side, "run", recipe, "--out", run)
            self.run(side, "pack", run, "--out", target)
        return target

    def generation(self) -> Work:
        url = self.stack.enter_context(model_server(0))
        (self.folder / "tools.json").write_text(make_functions(300))
        recipe = write_recipe(
            self.folder,
            "generation",
            sources=[{"type": "functions", "path": "tools.json"}],
            generate={
                "engine": "openai",
                "base_url": url,
                "model": "any",
                "queries": 1500,
                "concurrency": 64,
            },
        )
        return lambda side: self.run(
            side, "run", recipe, "--until", "generate", "--out", self.new_folder()
        )

    def start(self, *arguments: object) -> Work:
        return lambda side: self.run(side, *arguments)

    def plan(self) -> Work:
        (self.folder / "tools.json").write_text(make_functions(300))
        recipe = write_recipe(
            self.folder,
            "planned",
            sources=[{"type": "functions", "path": "tools.json"}],
            generate={"engine": "openai", "model": "any", "queries": 1500},
        )
        return lambda side: self.run(side, "plan", recipe)

    def search(self) -> Work:
        packs = {side: self.pack(side, 300) for side in self.sides}
        return lambda side: self.run(side, "search", packs[side], "lock my door")

    def get(self) -> Work:
        served = {side: self._serve(side) for side in self.sides}
        texts = [f"{v} the {n} {t}" for v in VERBS for n in NOUNS for t in THINGS]
        random.Random(0).shuffle(texts)

        def measure(side: str) -> Measured:
            url, pid = served[side]
            took = []
            before = cpu_of(pid)
            for text in texts[:300]:
                start = time.perf_counter()
                get(f"{url}/search?q={text.replace(' ', '+')}")
                took.append(time.perf_counter() - start)
            return statistics.median(took), cpu_of(pid) - before

        return measure

    def _serve(self, side: str) -> tuple[str, int]:
        log = self.folder / f"serve-{side}"
        with log.open("w") as file:
            server = subprocess.Popen(
                [
                    self.sides[side] / ".venv/bin/toolbank",
                    *("serve", self.pack(side, 1600), "--port", "0", "--no-key"),
                ],
                stdout=file,
                stderr=file,
            )
        self.stack.callback(server.wait)
        self.stack.callback(server.terminate)
        url = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
        return url[0], server.pid

    def crawl(self, pages: Path) -> Work:
        served = self.stack.enter_context(serve(pages))
        return lambda side: self.run(
            side, "crawl", "--sphinx", served.url, "--out", self.new_folder()
        )

    def openapi(self) -> Work:
        (self.folder / "api.json").write_text(make_description(1500))
        recipe = write_recipe(
            self.folder,
            "openapi",
            sources=[{"type": "openapi", "spec": "api.json"}],
            generate={"engine": "rules"},
        )
        return lambda side: self.run(
            side, "run", recipe, "--until", "sources", "--out", self.new_folder()
        )


def cpu_of(pid: int) -> float:
    """Seconds of the CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interval(ratios: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by the bootstrap."""
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10_000)
    )
    return medians[250], medians[9750]


def main() -> None:
    """Measure, and print a line for each work and clock."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    sides = {"old": given.old.resolve(), "new": given.new.resolve()}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        bench = Bench(sides, Path(name), stack)
        works: dict[str, Callable[[], Work]] = {
            "help": lambda: bench.start("--help"),
            "schema": lambda: bench.start("schema"),
            "plan": bench.plan,
            "search": bench.search,
            "get": bench.get,
            "openapi": bench.openapi,
            "generation": bench.generation,
        }
        if pages := given.pages:
            works["crawl"] = lambda: bench.crawl(pages)
        for work in given.only or works:
            do = works[work]()
            took: dict[str, list[Measured]] = {side: [] for side in sides}
            for pair in range(given.pairs + 1):
                for side in list(sides)[:: -1 if pair % 2 else 1]:
                    measured = do(side)
                    if pair:
                        took[side].append(measured)
            for clock, unit in enumerate(("clock", "CPU")):
                old, new = ([one[clock] for one in took[side]] for side in sides)
                ratios = [b / a for a, b in zip(old, new, strict=True)]
                low, high = interval(ratios)
                print(
                    f"{work:<11} {unit:<6} {statistics.median(old):9.4f} s -> "
                    f"{statistics.median(new):9.4f} s, ratio {statistics.median(ratios):.3f} "
                    f"({low:.3f} to {high:.3f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
