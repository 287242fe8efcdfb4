"""What shape the code of some checkouts has: files, lines, imports, names, and five walks through them.

    python benchmarks/structure.py CHECKOUT... [-v] [--static] [--walks ace]

Each checkout is a folder with the package `toolbank` in it and, for the walks, its own `.venv`. With -v what is
counted is listed too; --static leaves out the walks, --walks takes some of them.

**Figures.** A code line is a line with a token that is neither blank, comment nor docstring. A file is a Python
file of the package; "with code" leaves out those that hold a docstring alone. An internal import is an
import statement, anywhere in a file, that names a module of the package. Import lines are the code lines of
all import statements. A public name is a function or a class at the top level of a module,
without a leading underscore. A lone module is one under 40 code lines that a single module imports, which is
in the same folder.

**Walks.** A walk is a job that a reader wants to follow. Its figure is the number of files of the package in which
a function is entered for *one more* of the thing that is done, so that what a command does once, whatever its
work, is not counted. Each walk is run with three sizes, or three times, and a function counts if it is
entered more often at each step, so that what timers do is not counted either:

    (a) a tool from OpenAPI: `run --until sources` of 1, 2 and 3 descriptions with an operation each
    (o) the same without the way of the description: one with 3, 4 and 5 operations
    (b) a query by a model: `run --until generate` of 3, 4 and 5 queries, one call at a time, with a server on
        this machine
    (c) a search: the 3rd, 4th and 5th GET /search in a packed BM25 finder
    (d) a retriever: `run --until retrievers` with one, two and three of `type: mlc`, on a tiny encoder
    (e) Ctrl-C: from the signal until the process has ended, amid the calls of (b)

For (e) a function counts if the interrupt enters it, or passes through it as an exception, and if that does
not occur in the same run when it ends by itself; in each of three runs.

A function is a `def` with a name: modules, class bodies, lambdas and comprehensions do not count, nor does what is
entered while a module is imported. A coroutine is entered once, however often it is resumed. All threads are
followed; processes that the command starts are not.
"""

import argparse
import ast
import dis
import inspect
import io
import json
import mmap
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

HERE = Path(__file__).resolve()
PACKAGE = "toolbank"
SMALL = 40
MIDDLE = range(150, 401)

# Most functions that a walk may enter.
SLOTS = 16_384
NOUNS = [
    "orders",
    "letters",
    "returns",
    "prices",
    "parcels",
    "invoices",
    "visits",
    "repairs",
]
T = TypeVar("T")


# ---- figures of the source


@dataclass
class Module:
    name: str
    path: Path
    lines: int = 0
    import_lines: int = 0
    classes: list[str] = field(default_factory=list)
    public_names: int = 0
    import_statements: int = 0
    imports: set[str] = field(default_factory=set)


def read_package(checkout: Path) -> dict[str, Module]:
    """The modules of a checkout by their names."""
    modules = {}
    for path in sorted((checkout / PACKAGE).rglob("*.py")):
        parts = path.relative_to(checkout).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path)
    for module in modules.values():
        read_module(module, modules)
    return modules


def read_module(module: Module, modules: dict[str, Module]) -> None:
    text = module.path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = code_lines(text, tree)
    module.lines = len(lines)
    importing: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            module.classes.append(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            importing |= {*range(node.lineno, (node.end_lineno or 0) + 1)} & lines
            named = {*imported(node, modules)}
            module.import_statements += bool(named)
            module.imports |= named - {module.name}
    module.import_lines = len(importing)
    module.public_names = sum(
        not node.name.startswith("_")
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines with code."""
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node, clean=False):
            docstrings.add((node.body[0].lineno, node.body[0].col_offset))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank and token.start not in docstrings:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return lines


def imported(
    node: ast.Import | ast.ImportFrom, modules: dict[str, Module]
) -> Iterator[str]:
    """The modules of the package that an import names."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            names = [alias.name]
        else:
            names = [f"{node.module}.{alias.name}", node.module or ""]
        yield from [name for name in names if name in modules][:1]


def lone_modules(modules: dict[str, Module]) -> list[str]:
    """Each small module that one module imports, of its own folder, as "module (importer)"."""
    importers = defaultdict(list)
    for module in modules.values():
        for name in module.imports:
            importers[name].append(module)
    return [
        f"{name} ({importers[name][0].name})"
        for name, module in modules.items()
        if module.path.name != "__init__.py"
        and module.lines < SMALL
        and len(importers[name]) == 1
        and importers[name][0].path.parent == module.path.parent
    ]


def double_classes(modules: dict[str, Module]) -> list[str]:
    places = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            places[name].append(module.name)
    return [
        f"{name} ({', '.join(places[name])})"
        for name in sorted(places)
        if len(places[name]) > 1
    ]


def measure_source(checkout: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The figures of a checkout by their names, and the lists behind some of them."""
    modules = read_package(checkout)
    lines = sum(module.lines for module in modules.values())
    with_code = [module for module in modules.values() if module.lines]
    middle = sum(module.lines for module in with_code if module.lines in MIDDLE)
    statements = sum(module.import_statements for module in with_code)
    importing = sum(module.import_lines for module in with_code)
    public = sum(module.public_names for module in with_code)
    lists = {
        "class names twice or more": double_classes(modules),
        f"lone modules under {SMALL} lines": lone_modules(modules),
    }
    figures = {
        "files": f"{len(modules):,}",
        "files with code": f"{len(with_code):,}",
        "code lines": f"{lines:,}",
        "code per file with code": f"{lines / len(with_code):.0f}",
        f"code in files of {MIDDLE[0]} to {MIDDLE[-1]} lines": f"{middle / lines:.1%}",
        "internal imports": f"{statements:,}",
        "internal imports per 1,000 lines": f"{1000 * statements / lines:.1f}",
        "import lines, share of code": f"{importing / lines:.1%}",
        "public names per 1,000 lines": f"{1000 * public / lines:.1f}",
        **{name: f"{len(listed)}" for name, listed in lists.items()},
    }
    packages: dict[str, list[int]] = defaultdict(list)
    for module in modules.values():
        packages[package_of(checkout, module)].append(module.lines)
    for name, sizes in sorted(packages.items()):
        figures[f"  {name}: files, lines"] = f"{len(sizes)}, {sum(sizes):,}"
    return figures, lists


def package_of(checkout: Path, module: Module) -> str:
    """The folder directly in the package that a module is in, or "(top)"."""
    parts = module.path.relative_to(checkout / PACKAGE).parts
    return parts[0] if len(parts) > 1 else "(top)"


# ---- the tracer, which runs within the command


def trace(folder: Path, root: str) -> None:
    """Run `python -m toolbank` with the arguments of this process, and count as it goes.

    The counts are in a shared file, so that they can be read at any moment and outlive a kill.
    """
    with (folder / "counts").open("r+b") as file:
        counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    names = (folder / "names").open("w", buffering=1)
    resume = dis.opmap["RESUME"]
    ends = {dis.opmap.get(name) for name in ("RETURN_VALUE", "YIELD_VALUE")}
    # By the id of a code object, which is kept with it so that the id is not used again.
    known: dict[int, tuple[CodeType, int, int, bytes]] = {}
    lock = threading.Lock()
    local = threading.local()

    def learn(code: CodeType) -> tuple[CodeType, int, int, bytes]:
        number = -1
        if code.co_filename.startswith(root):
            number = 0
            # Class bodies and modules have no optimised locals.
            if code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<":
                number = 1 + sum(entry[1] > 0 for entry in known.values())
                file = code.co_filename[len(root) :]
                names.write(f"{number}\t{file}\t{code.co_qualname}\n")
        start = 2 * code.co_code[::2].index(resume)
        known[id(code)] = code, number, start, code.co_code
        return known[id(code)]

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        entry = known.get(id(code))
        if entry is None:
            with lock:
                entry = known.get(id(code)) or learn(code)
        _, number, start, bytecode = entry
        if number < 0:
            return
        depth = getattr(local, "importing", 0)
        if code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__":
            local.importing = depth + (1 if event == "call" else -1)
        if depth or not number:
            return
        with lock:
            if event == "call":
                # A generator or coroutine that goes on is further than its start.
                counts[2 * number] += frame.f_lasti <= start
            elif bytecode[frame.f_lasti] not in ends:
                counts[2 * number + 1] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)


Counts = Counter[tuple[str, str, str]]
"""How often it occurred, by file, function and "entered" or "left"."""


class Traced:
    """A command of a checkout, counted while it runs."""

    def __init__(self, checkout: Path, cwd: Path, *arguments: str) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=cwd))
        (self._folder / "counts").write_bytes(bytes(16 * SLOTS))
        (self._folder / "names").touch()
        self._log = (self._folder / "log").open("w+")
        root = str((checkout / PACKAGE).resolve()) + os.sep
        self.process = subprocess.Popen(
            [python_of(checkout), HERE, "--trace", self._folder, root, *arguments],
            cwd=cwd,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def counts(self) -> Counts:
        numbers = memoryview((self._folder / "counts").read_bytes()).cast("Q")
        counts: Counts = Counter()
        for line in (self._folder / "names").read_text().splitlines():
            number, file, function = line.split("\t")
            for what, value in enumerate(("entered", "left")):
                counts[file, function, value] += numbers[2 * int(number) + what]
        return counts

    def output(self) -> str:
        return (self._folder / "log").read_text()

    def end(self, *codes: int) -> Counts:
        """Wait for the end; the counts of all that it did."""
        if self.process.wait() not in (codes or (0,)):
            raise SystemExit(self.output())
        return self.counts()


def python_of(checkout: Path) -> Path:
    return checkout / ".venv/bin/python"


def grown(steps: list[Counts]) -> set[tuple[str, str]]:
    """The functions that are entered more often at each step."""
    return {
        (file, function)
        for file, function, what in steps[-1]
        if what == "entered"
        and all(
            before[file, function, what] < after[file, function, what]
            for before, after in pairwise(steps)
        )
    }


# ---- the walks


def describe_api(nouns: list[str]) -> str:
    """An OpenAPI description, whose operations differ by their nouns alone."""
    change = {
        "type": "object",
        "properties": {"note": {"type": "string", "description": "Why."}},
        "required": ["note"],
    }
    paths = {
        f"/{noun}/{{id}}": {
            "put": {
                "operationId": f"change_{noun}",
                "summary": f"Change one of the {noun} of a customer.",
                "parameters": [
                    {
                        "name": "id",
                        "in": "path",
                        "required": True,
                        "description": f"Which of the {noun}.",
                        "schema": {"type": "string"},
                    }
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {"$ref": "#/components/schemas/Change"}
                        }
                    }
                },
                "responses": {"200": {"description": f"The changed {noun}."}},
            }
        }
        for noun in nouns
    }
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Shop", "version": "1"},
            "paths": paths,
            "components": {"schemas": {"Change": change}},
        }
    )


def write_recipe(
    folder: Path,
    generate: dict[str, object],
    apis: list[list[str]] | None = None,
    **keys: object,
) -> None:
    """Write walk.yaml and the descriptions that it reads: of one API with all nouns if not given."""
    folder.mkdir()
    apis = apis or [NOUNS]
    for number, nouns in enumerate(apis):
        (folder / f"{number}.json").write_text(describe_api(nouns))
    recipe = {
        "name": "walk",
        "sources": [
            {"type": "openapi", "spec": f"{number}.json"} for number in range(len(apis))
        ],
        "generate": {"offered": 4, "min_tools": 1, "max_tools": 2, **generate},
        "baselines": False,
        "retrievers": [{"type": "bm25"}],
        **keys,
    }
    # JSON is YAML.
    (folder / "walk.yaml").write_text(json.dumps(recipe))


def walk_operation(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    return walk_sources(checkout, folder, [[NOUNS[:number]] for number in (3, 4, 5)])


def walk_description(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    apis = [[noun] for noun in NOUNS]
    return walk_sources(checkout, folder, [apis[:number] for number in (1, 2, 3)])


def walk_sources(
    checkout: Path, folder: Path, sizes: list[list[list[str]]]
) -> set[tuple[str, str]]:
    steps = []
    for number, apis in enumerate(sizes):
        place = folder / f"{number}"
        write_recipe(place, {"engine": "rules"}, apis)
        run = Traced(checkout, place, "run", "walk.yaml", "--until", "sources")
        steps.append(run.end())
    return grown(steps)


def walk_query(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    steps = []
    with model_server(0) as url:
        for queries in (3, 4, 5):
            place = folder / f"{queries}"
            write_recipe(place, ask(url, queries, 1))
            run = Traced(checkout, place, "run", "walk.yaml", "--until", "generate")
            steps.append(run.end())
    return grown(steps)


def walk_search(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    place = folder / "search"
    write_recipe(place, {"engine": "rules", "queries": 20})
    for command in (
        ["run", "walk.yaml", "--out", "run"],
        ["pack", "run", "--out", "pack"],
    ):
        subprocess.run(
            [python_of(checkout), "-m", PACKAGE, *command],
            cwd=place,
            check=True,
        )
    server = Traced(checkout, place, "serve", "pack", "--port", "0", "--no-key")
    try:
        url = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", server.output()))
        steps = []
        for noun in NOUNS[:5]:
            query = urllib.parse.urlencode({"q": f"change the {noun}"})
            get(f"{url[0]}/search?{query}")
            time.sleep(0.5)
            steps.append(server.counts())
    finally:
        server.process.terminate()
        server.process.wait()
    return grown(steps[1:])


def walk_retriever(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    steps = []
    code = "import sys; from pathlib import Path; from tests.tiny_models import tiny_encoder; tiny_encoder(Path(sys.argv[1]))"
    subprocess.run(
        [python_of(checkout), "-c", code, folder / "tiny"],
        cwd=HERE.parents[1],
        check=True,
        capture_output=True,
    )
    for number in (1, 2, 3):
        place = folder / f"{number}"
        retrievers = [
            {
                "type": "mlc",
                "name": f"mlc-{each}",
                "encoder": {"model": str(folder / "tiny")},
                "training": {"epochs": 1},
            }
            for each in range(number)
        ]
        generate = {"engine": "rules", "queries": 20}
        write_recipe(place, generate, retrievers=retrievers)
        run = Traced(checkout, place, "run", "walk.yaml", "--until", "retrievers")
        steps.append(run.end())
    return grown(steps)


def walk_interrupt(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    found = []
    for attempt in range(3):
        stretches = []
        for interrupted in (True, False):
            with model_server(0.1) as url:
                place = folder / f"{attempt}-{interrupted}"
                write_recipe(place, ask(url, 20, 2))
                run = Traced(checkout, place, "run", "walk.yaml", "--until", "generate")
                stats = url.replace("/v1", "/stats")
                wait_for(lambda: json.loads(get(stats))["calls"] >= 8)  # noqa: B023
                before = run.counts()
                if interrupted:
                    run.process.send_signal(signal.SIGINT)
                stretches.append(run.end(0, 1) - before)
        found.append(stretches[0].keys() - stretches[1].keys())
    return {(file, function) for file, function, _ in set.intersection(*found)}


WALKS = {
    "a": ("an OpenAPI description", walk_description),
    "o": ("an OpenAPI operation alone", walk_operation),
    "b": ("a query by a model", walk_query),
    "c": ("a search", walk_search),
    "d": ("a retriever of type mlc", walk_retriever),
    "e": ("Ctrl-C", walk_interrupt),
}


def ask(url: str, queries: int, concurrency: int) -> dict[str, object]:
    return {
        "engine": "openai",
        "base_url": url,
        "model": "any",
        "api_key_env": None,
        "queries": queries,
        "concurrency": concurrency,
    }


@contextmanager
def model_server(latency: float) -> Iterator[str]:
    """A server on this machine that answers as a model would; its address."""
    server = subprocess.Popen(
        [sys.executable, HERE.parent / "generation/server.py", f"--latency={latency}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read()


def wait_for(condition: Callable[[], T]) -> T:
    """What a condition gives once it holds."""
    for _ in range(1200):
        if held := condition():
            return held
        time.sleep(0.05)
    raise SystemExit("nothing came of it in a minute")


# ---- the table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("-v", "--verbose", action="store_true", help="list, too")
    parser.add_argument("--static", action="store_true", help="no walks")
    parser.add_argument("--walks", default="".join(WALKS), help="such as ab")
    given = parser.parse_args()
    columns = []
    for checkout in given.checkouts:
        checkout = checkout.resolve()
        figures, lists = measure_source(checkout)
        for letter in "" if given.static else given.walks:
            name, walk = WALKS[letter]
            with tempfile.TemporaryDirectory() as folder:
                functions = walk(checkout, Path(folder))
            files = {file for file, _ in functions}
            name = f"walk ({letter}), {name}: files"
            figures[name] = f"{len(files)}"
            lists[f"{name}, functions"] = [
                f"{file}: {', '.join(sorted(f for place, f in functions if place == file))}"
                for file in sorted(files)
            ]
        columns.append((checkout, figures, lists))
    print_table(columns)
    for checkout, _, lists in columns if given.verbose else ():
        for name, listed in lists.items():
            print(f"\n{checkout.name}, {name}:")
            print("\n".join(f"  {each}" for each in listed))


def print_table(
    columns: list[tuple[Path, dict[str, str], dict[str, list[str]]]],
) -> None:
    names = dict.fromkeys(name for _, figures, _ in columns for name in figures)
    width = max(map(len, names))
    print(" " * width, *(f"{checkout.name[-14:]:>14}" for checkout, _, _ in columns))
    for name in names:
        print(
            f"{name:{width}}",
            *(f"{figures.get(name, '-'):>14}" for _, figures, _ in columns),
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trace"]:
        folder, root, *rest = sys.argv[2:]
        sys.argv = [PACKAGE, *rest]
        trace(Path(folder), root)
    else:
        main()
