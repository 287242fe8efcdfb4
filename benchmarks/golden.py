"""Do two checkouts give the same?

    python benchmarks/golden.py OLD NEW [--keys] [--lines 40] [--work DIR]
        [--old-bin OLD/.venv/bin] [--new-bin NEW/.venv/bin]

Both run the same small work side by side, one core each: a quickstart of 50 tools, `rules`, `openai` and
`batch` against a model that this script plays, every retriever on a dataset, sources of each kind that needs
no network, and errors. Each runs the recipes of its own `benchmarks/golden/`; where a key of a recipe gets another
name, it is changed there in the same commit. OLD takes those of NEW if it has none. Three parts are compared:

- fixed: exit codes, requests that were sent, rows of the Parquet files (less the keys of replies), prompts,
  replies and failed tries in the journals, metrics, JSON output, exported banks, 100 hits of each of 12 requests by
  every retriever of a run, of a packed finder and of a saved one. A difference is printed, and the exit code is 1.
- wording: `--help` of every command, the schema, what commands print, the text of the reports. Differences
  are printed. Paths, times and durations are left out.
- keys: of the stages and of the journals. Whether they are equal is printed; with `--keys` they are fixed, too.

A file that is in none of these parts is named if its bytes differ.

It is meant to take three minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from generation.server import compose

_HERE = Path(__file__).resolve()
_RECIPES = Path("benchmarks", "golden")
_COLLECTED = "collected.json"

# What each checkout runs in a folder of its own; a line is a command, its label is the line. `!` is of this
# script: it cuts the list of NumPy's tools; and it answers batches and runs the command
# again until no request waits.
WORK = """
tools numpy --json
!cut
run quickstart.yaml
run rules.yaml
run openai.yaml
!answered run batch.yaml
run retrievers.yaml
run openapi.yaml --until sources
run rules.yaml
run rules.yaml --set seed=1 --replace
run openai.yaml --all
tools mcp-tools.json --json
tools shop_package --json
tools statistics
init petshop openapi.json
plan openai.yaml --out runs/planned
plan runs/batch
preview openai.yaml --count 2
preview rules.yaml --count 2
show runs/openai
show runs/openai 3
show runs/openai shop.find_orders
show runs/batch 1
show runs/rules statistics.median
judge runs/rules --pairs 5
judge runs/openai --against runs/quickstart
compare runs/quickstart runs/rules --no-encoder
compare runs/openai shop --no-encoder --json
evaluate runs/quickstart --on natural.jsonl --out evaluated.json
search runs/quickstart "median without the blanks" -k 3
search runs/quickstart --queries natural.jsonl --out found.jsonl -k 100
search runs/retrievers "find my orders" --retriever refiner
pack runs/quickstart --out packs/quickstart --with-requests --fp32
pack runs/retrievers --out packs/retrievers --retriever mlc --int8
search packs/quickstart "median without the blanks" -k 3
export runs/quickstart --format datasets --out exports/datasets
export runs/quickstart --format jsonl --out exports/jsonl
export runs/quickstart --format toolbank --out exports/toolbank
export runs/openai --format functions --out exports/functions
export runs/batch --format anthropic --out exports/anthropic
export runs/batch --format gemini --out exports/gemini
export runs/batch --format mcp --out exports/mcp
publish runs/quickstart --to exports/published --license cc-by-4.0
verify runs/quickstart
refresh runs/openai --dry-run --json
refresh runs/rules
recipes
schema
schema --markdown
run openai.yaml --out runs/wrong-key --set generate.api_key_env=WRONG_KEY
run openai.yaml --out runs/dead --set generate.base_url=http://127.0.0.1:9/v1 --set generate.max_outage=1
run openai.yaml --out runs/untrusted --set generate.base_url=http://localhost:9/v1
run openai.yaml --out runs/poor --set generate.budget.calls=7
run missing.yaml
run quickstart.yaml --out runs/missing --set generate.replies=missing.jsonl
run rules.yaml --out runs/unknown --set seeds=1
run rules.yaml --out runs/openai
run rules.yaml --out shop
tools openapi-broken.json
tools "python3 never_started.py"
search runs/none anything
show runs/rules 99999
pack runs/dead --out packs/dead
export runs/rules --out shop
frobnicate
"""
_ANSWERED, _CUT = "!answered ", "!cut"
_BATCHES = Path("runs", "batch", "batch")
# Read otherwise, or about the process.
_UNREAD = (".parquet", ".sqlite", ".lock", ".owner", ".answered", "origin.json")
# Stages whose keys have the hashes of files with paths of this side.
_ON_RETRIEVERS = ("evaluate", "report")
_MOST_COMPARED = 500_000
_ENCODER = "tiny-encoder"
_DEAD = "http://127.0.0.1:9"
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)
_PROBES = (
    "find the orders of a customer",
    "total all letters and list the returns",
    "merge prices",
    "which station strayed furthest from its usual temperature",
    "middle value of house prices, ignoring blanks",
    "solve the equations for the three unknowns",
    "sort by price, then cancel the newest",
    "how often does each number occur?",
    "ship",
    "¿dónde está mi pedido?",
    "12,000 readings, 40 stations, one odd one out",
    "Please keep the invoices of the last month apart from the refunds of this one.",
)


@dataclass
class Side:
    """A checkout, and what came of it."""

    name: str
    checkout: Path
    bin: Path
    folder: Path
    url: str = ""
    fixed: dict[str, Any] = field(default_factory=dict)
    wording: dict[str, str] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        home = self.folder.parent / f"{self.name}-home"
        threads = dict.fromkeys(_THREADS, "1")
        host = self.url.removesuffix("/v1")
        sent = [("GOLDEN_KEY", host), ("WRONG_KEY", host), ("GOLDEN_KEY", _DEAD)]
        return threads | {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "100",
            "GOLDEN_KEY": self.name,
            "WRONG_KEY": "wrong",
            "TOOLBANK_GRANTS": "; ".join(f"send {k}=${k} {to}" for k, to in sent),
            # What version 0.7.0 reads.
            "TOOLBANK_TRUSTED_HOSTS": " ".join(f"{k}={to}" for k, to in sent),
        }

    def run(self, arguments: list[str]) -> tuple[int, str]:
        """The exit code, and what was printed as text that two runs have in common."""
        done = subprocess.run(
            arguments,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, f"{done.stdout}\n--- stderr\n{done.stderr}"

    def plain(self, text: str) -> str:
        """A text without what differs from one run to the next."""
        home = self.folder.parent / f"{self.name}-home"
        for known, name in (
            (str(self.folder), "WORK"),
            (str(home), "HOME"),
            (str(self.bin), "BIN"),
            (str(self.checkout), "CHECKOUT"),
            (self.url.split("/")[2], "SERVER"),
            (self.url.split("/")[2].split(":")[1], "PORT"),
        ):
            text = text.replace(known, name)
        text = re.sub(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?(\.\d+)?)?", "DATE", text)
        text = re.sub(r"\b\d\d:\d\d:\d\d\b", "TIME", text)
        text = re.sub(r"(?<![\w.])[\d.,]+( ?)(ms|s|min|h)\b", r"N\1s", text)
        return re.sub(r"\b[\d.,]+ (milli)?(second|minute|hour)s?\b", "N seconds", text)


# The model


class Model:
    """Answers as a model of middling quality would; a function of the messages alone."""

    def __init__(self) -> None:
        self.requests: dict[str, list[str]] = {"old": [], "new": []}
        self._seen: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def answer(self, who: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if who not in self.requests:
            return 401, {
                "error": {"message": "Incorrect API key.", "code": "invalid_api_key"}
            }
        digest = _digest(body["messages"])
        with self._lock:
            self.requests[who].append(json.dumps(body))
            is_first = (who, digest) not in self._seen
            self._seen.add((who, digest))
        if is_first and int(digest, 16) % 67 == 0:
            return 500, {"error": {"message": "The model has stumbled."}}
        return 200, complete(body)


def complete(body: dict[str, Any]) -> dict[str, Any]:
    """A chat completion."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    numbers = Random(_digest(body["messages"]))
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    names = re.findall(r"^- (\w+[._/][\w./-]+)(?=:| |$)", prompt, re.MULTILINE)
    text = json.dumps(_fill(schema, "", numbers, names or ["first"]))
    if numbers.random() < 0.05:
        text = "I am sorry, but " + text[:40]
    return {
        "id": "chatcmpl-golden",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "golden",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop" if numbers.random() > 0.03 else "length",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": len(text) // 4,
            "total_tokens": len(prompt) // 4 + len(text) // 4,
        },
    }


def _fill(schema: dict[str, Any], key: str, numbers: Random, names: list[str]) -> Any:
    """A value of a JSON Schema."""
    if "enum" in schema:
        return numbers.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return {
                name: _fill(part, name, numbers, names)
                for name, part in schema["properties"].items()
            }
        case "array" if key == "alternatives":
            return []
        case "array":
            items = [
                _fill(schema["items"], key, numbers, names)
                for _ in range(numbers.choice((1, 2, 2, 3)))
            ]
            one_each = {json.dumps(item)[:30]: item for item in items}
            return list(one_each.values())
        case "boolean":
            return numbers.random() < 0.1
        case "integer":
            return numbers.randint(1, 20)
    if key in ("tool", "for", "tools"):
        return numbers.choice(names)
    if key == "aside":
        return "Nobody could say what it needs." if numbers.random() < 0.1 else ""
    text = compose(numbers.getrandbits(64))
    return " ".join(text.lower().split()[5:11]) if key.startswith("terse") else text


def serve(model: Model) -> tuple[ThreadingHTTPServer, str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            who = self.headers.get("Authorization", "").removeprefix("Bearer ")
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = model.answer(who, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/v1"


def answer_batches(folder: Path) -> bool:
    """Put a file of replies beside the requests of a round that have none; whether there were any."""
    answered = False
    for file in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        mark = folder / f"{file.stem}.answered"
        if mark.exists() or not lines or "body" not in lines[0]:
            continue
        mark.touch()
        answered = True
        replies = [
            {
                "custom_id": line["custom_id"],
                "response": {"status_code": 200, "body": complete(line["body"])},
            }
            for line in lines
        ]
        _write_lines(folder / f"output-{file.stem}.jsonl", replies)
    return answered


# What both are given


def write_inputs(folder: Path) -> None:
    """Files that recipes name; the same for both."""
    verbs = [
        "find",
        "total",
        "list",
        "merge",
        "cancel",
        "ship",
        "price",
        "count",
        "archive",
        "sort",
        "keep",
        "check",
    ]
    nouns = [
        "orders",
        "letters",
        "returns",
        "prices",
        "invoices",
        "refunds",
        "crates",
        "tickets",
        "labels",
        "stocks",
    ]
    names = [(f"shop.{verb}_{noun}", verb, noun) for verb in verbs for noun in nouns]
    tools = [
        {"name": name, "description": f"{verb.title()} the {noun} of a customer."}
        for name, verb, noun in names
    ]
    _write_lines(folder / "shop" / "tools.jsonl", tools)
    numbers, queries = Random(0), []
    for number in range(240):
        chosen = numbers.sample(names, numbers.choice((1, 2, 2, 3)))
        parts = ", then ".join(f"{verb} my {noun}" for _, verb, noun in chosen)
        query = f"{compose(number).split(',')[0]}: {parts}"
        split = "train" if number < 180 else "validation" if number < 210 else "test"
        queries.append(
            {"query": query, "tools": [name for name, *_ in chosen], "split": split}
        )
    _write_lines(folder / "shop" / "queries.jsonl", queries)
    schema = {
        "type": "object",
        "properties": {"since": {"type": "string", "format": "date"}},
    }
    listed = [{**tool, "inputSchema": schema} for tool in tools[:30]]
    _write_json(folder / "mcp-tools.json", {"tools": listed})
    api = _make_api(nouns[:6])
    _write_json(folder / "openapi.json", api)
    (folder / "openapi-broken.json").write_text(json.dumps(api)[:-99])
    package = folder / "shop_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        '"""A shop."""\n\n'
        + "".join(
            f'def {verb}(orders: list[str], limit: int = 3) -> str:\n    """{verb.title()} orders.\n\n'
            '    Args:\n        orders: Their numbers.\n        limit: How many.\n    """\n\n\n'
            for verb in verbs
        )
    )


def _make_api(nouns: list[str]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    number = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "integer"},
    }
    for noun in nouns:
        item = {"$ref": f"#/components/schemas/{noun}"}
        body = {"content": {"application/json": {"schema": item}}}
        answer = {"200": {"description": f"The {noun}.", **body}}
        paths[f"/{noun}"] = {
            "get": {
                "operationId": f"list_{noun}",
                "summary": f"List all {noun}.",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}}
                ],
                "responses": answer,
            },
            "post": {
                "summary": f"Add to the {noun}.",
                "requestBody": body,
                "responses": answer,
            },
        }
        paths[f"/{noun}/{{id}}"] = {
            "parameters": [number],
            "get": {
                "description": f"One of the {noun}, by its number.",
                "responses": answer,
            },
            "delete": {
                "summary": f"Delete {noun}.",
                "deprecated": True,
                "responses": answer,
            },
        }
    schemas = {
        noun: {
            "type": "object",
            "required": ["title"],
            "properties": {"title": {"type": "string"}, "amount": {"type": "number"}},
        }
        for noun in nouns
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example/v1"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def cut_numpy(folder: Path, listed: str) -> None:
    """NumPy's tools, written requests and asks, less all that need other tools than 50."""
    data = _HERE.parents[1] / "recipes" / "data"
    written = _read_lines(data / "numpy-written.jsonl")
    natural = _read_lines(data / "numpy-natural.jsonl")
    uses: dict[str, int] = {}
    for line in (*written, *natural):
        for name in line.get("tools", ()):
            uses[name] = uses.get(name, 0) + 1
    kept = set(sorted(uses, key=lambda name: (-uses[name], name))[:50])
    tools = [json.loads(line) for line in listed.splitlines() if line.startswith("{")]
    functions = [
        {"name": tool["name"], "description": tool["summary"]}
        for tool in tools
        if tool["name"] in kept
    ]
    _write_json(folder / "numpy.json", functions)
    for line in written:
        line["offered"] = [name for name in line["offered"] if name in kept]
    _write_lines(
        folder / "data" / "numpy-written.jsonl",
        [
            line
            for line in written
            if line.get("tools") and kept.issuperset(line["tools"])
        ],
    )
    asks = _read_lines(data / "numpy-asks.jsonl")
    _write_lines(
        folder / "data" / "numpy-asks.jsonl",
        [line for line in asks if line["tool"] in kept],
    )
    _write_lines(
        folder / "natural.jsonl",
        [line for line in natural if kept.issuperset(line["tools"])],
    )


# One side


def work(side: Side, model: Model, recipes: Path) -> Side:
    """Run everything with one checkout."""
    started = time.perf_counter()
    for recipe in sorted(recipes.glob("*.yaml")):
        text = recipe.read_text(encoding="utf-8").replace("SERVER", side.url)
        (side.folder / recipe.name).write_text(text, encoding="utf-8")
    toolbank, listed = str(side.bin / "toolbank"), ""
    codes: dict[str, list[int]] = {}
    for number, line in enumerate(WORK.strip().splitlines(), start=1):
        if line == _CUT:
            cut_numpy(side.folder, listed)
            continue
        began = time.perf_counter()
        command = [toolbank, *shlex.split(line.removeprefix(_ANSWERED))]
        code, printed = side.run(command)
        codes[f"{number}: {line}"] = [code]
        while line.startswith(_ANSWERED) and answer_batches(side.folder / _BATCHES):
            code, more = side.run(command)
            codes[f"{number}: {line}"].append(code)
            printed += more
        listed = listed or printed
        part = side.fixed if "--json" in line else side.wording
        part[f"{number}: {line}"] = side.plain(printed)
        took = time.perf_counter() - began
        print(f"{side.name}  {took:5.1f} s  exit {code}  {line}", flush=True)
    side.fixed["exit codes"] = codes
    side.wording |= {f"help: {name}": text for name, text in read_help(side, [])}
    collect_apart(side)
    side.fixed["requests sent"] = sorted(model.requests[side.name])
    read_files(side)
    side.seconds = time.perf_counter() - started
    return side


def read_help(side: Side, names: list[str]) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it."""
    _, text = side.run([str(side.bin / "toolbank"), *names, "--help"])
    yield " ".join(names) or "toolbank", text
    _, _, commands = text.partition("\nCommands:\n")
    for name in re.findall(
        r"^  ([a-z-]+)(?:  |$)", commands.split("\n\n")[0], re.MULTILINE
    ):
        yield from read_help(side, [*names, name])


def collect_apart(side: Side) -> None:
    """Have what only the checkout's own code can read read by it."""
    run_apart(side, "--collect")
    file = side.folder / _COLLECTED
    collected = json.loads(file.read_text())
    file.unlink()
    side.fixed |= collected["fixed"]
    side.keys |= collected["keys"]


def run_apart(side: Side, *arguments: str) -> None:
    """Run a part of this script with the checkout's own Python."""
    code, printed = side.run([str(side.bin / "python"), str(_HERE), *arguments])
    if code:
        raise SystemExit(f"{side.name}: {arguments[0]} failed.\n{printed}")


def read_files(side: Side) -> None:
    """Metrics and exported banks are fixed, reports are wording; others are told by their bytes."""
    for path in sorted(side.folder.rglob("*")):
        name = str(path.relative_to(side.folder))
        if not path.is_file() or path.name.endswith(_UNREAD):
            continue
        content = path.read_bytes()
        if path.name in ("metrics.json", "evaluated.json", "found.jsonl") or (
            name.startswith("exports/") and path.suffix in (".json", ".jsonl", ".md")
        ):
            side.fixed[name] = side.plain(content.decode())
        elif path.name == "report.html":
            text = re.sub(
                r"(?s)<(style|script)\b.*?</\1>|<[^>]+>", "\n", content.decode()
            )
            side.wording[name] = re.sub(
                r"\s*\n\s*", "\n", side.plain(html.unescape(text))
            )
        elif path.name == "stages.json":
            stages = json.loads(content)
            side.keys[name] = {
                stage: find_key(side, stage, kept) for stage, kept in stages.items()
            }
        else:
            side.files[name] = describe_file(side, path)


def describe_file(side: Side, path: Path) -> Any:
    """What a JSON file holds, less times; the hash of another one, or of a large one."""
    content = path.read_bytes()
    with suppress(ValueError):
        text = side.plain(content.decode())
        if path.suffix == ".json" and len(content) < _MOST_COMPARED:
            return without_times(json.loads(text))
        content = text.encode()
    return hashlib.sha256(content).hexdigest()


def find_key(side: Side, name: str, stage: dict[str, Any]) -> str:
    """The key of a stage, or what it is made from if paths of this side are part of that."""
    depends = json.dumps(stage.get("depends"))
    if name in _ON_RETRIEVERS:
        return re.sub(r"\b[0-9a-f]{64}\b", "HASH", side.plain(depends))
    is_own = side.plain(depends) != depends
    return side.plain(depends) if is_own else str(stage.get("key"))


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_times(part)
            for key, part in value.items()
            if not re.search(r"latency|seconds|(^|_)(s|ms|at|time)$", key)
        }
    if isinstance(value, list):
        return [without_times(part) for part in value]
    return value


# By the checkout's own Python


def collect() -> None:
    """Write the rows, journals and hits of the folder to a file; run by the checkout's own Python."""
    import warnings

    import polars

    import toolbank

    # Of runs that are not finished.
    warnings.simplefilter("ignore")
    fixed: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    for file in sorted(Path().rglob("*.parquet")):
        rows = polars.read_parquet(file).to_dicts()
        # Of an attempt, and of a query: the keys of its replies.
        for row in rows:
            asked = row.pop("requests", None)
            if isinstance(row.get("provenance"), dict):
                asked = row["provenance"].pop("requests", asked)
            if asked is not None:
                keys.setdefault(f"replies of {file}", []).append(asked)
        fixed[f"rows of {file}"] = rows
    journal = find_journal()
    for file in sorted(Path().rglob("*.sqlite")):
        with journal(file, read_only=True) as opened:
            entries = sorted(map(_describe, opened.entries()), key=_exchange)
            failures = sorted(map(_describe, opened.failures()), key=_exchange)
        for kind, rows in (("replies", entries), ("failed tries", failures)):
            keys[f"{kind} of {file}"] = [row.pop("key") for row in rows]
            keys[f"identities of {kind} of {file}"] = [
                row.pop("identity") for row in rows
            ]
            fixed[f"{kind} of {file}"] = rows
    for folder in sorted(Path("runs").glob("*/models/*")):
        finder: Any = toolbank.load(folder.parents[1], folder.name)
        fixed[f"hits of {folder}"] = hits = _search(finder)
        saved = Path("saved", folder.parent.parent.name, folder.name)
        finder.save(saved)
        again = _search(toolbank.load(saved))
        fixed[f"saved and loaded: {folder}"] = "the same" if again == hits else again
    for folder in sorted(Path("packs").glob("*")):
        fixed[f"hits of {folder}"] = _search(toolbank.load(folder))
    Path(_COLLECTED).write_text(json.dumps({"fixed": fixed, "keys": keys}, default=str))


def write_encoder(folder: Path) -> None:
    """A sentence encoder of 2 layers of 32 with random weights; run by the new checkout's Python."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir(parents=True)
    words = _read_lines(folder.parent / "old" / "shop" / "queries.jsonl")
    known = sorted(
        {
            word
            for line in words
            for word in re.findall(r"[a-z]+", line["query"].lower())
        }
    )
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*special, *known]))
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = BertConfig(
        vocab_size=len(special) + len(known),
        intermediate_size=64,
        max_position_embeddings=64,
        **sizes,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizer(str(vocabulary), model_max_length=64).save_pretrained(folder)
    SentenceTransformer(str(folder)).save(str(folder))


def find_journal() -> Any:
    """The class `Journal`, in whatever module it is."""
    from importlib import import_module

    import toolbank

    home = Path(toolbank.__file__).parent
    for file in sorted(home.rglob("*.py")):
        if re.search(
            r"^class Journal\b", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            parts = file.relative_to(home.parent).with_suffix("").parts
            return import_module(".".join(parts).removesuffix(".__init__")).Journal
    raise SystemExit("No class Journal: change find_journal in benchmarks/golden.py.")


def _search(finder: Any) -> list[list[tuple[str, float]]]:
    found = [finder.search(probe, 100) for probe in _PROBES]
    return [[(hit.tool.name, hit.score) for hit in hits] for hits in found]


def _describe(record: Any) -> dict[str, Any]:
    """A journal's record, less how long it took and where it was asked."""
    row = asdict(record)
    if isinstance(row.get("reply"), dict):
        row["reply"].pop("latency", None)
    if "message" in row:
        row["message"] = re.sub(r"127\.0\.0\.1:\d+", "SERVER", row["message"])
    return row


def _exchange(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["step"],
        row["attempt"],
        json.dumps(row.get("messages")),
        json.dumps(row.get("message")),
    )


# Comparing


def differences(old: Any, new: Any, place: str) -> Iterator[str]:
    """Where two values differ, the order of keys included."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            only = (
                [key for key in old if key not in new],
                [key for key in new if key not in old],
            )
            what = (
                "only in old {}, only in new {}".format(*only)
                if any(only)
                else "other order"
            )
            yield f"{place}: keys: {what}"
        for key in old:
            if key in new:
                yield from differences(old[key], new[key], f"{place} > {key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old):,} in old, {len(new):,} in new"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{place} > {number}")
    elif (
        isinstance(old, str)
        and isinstance(new, str)
        and "\n" in old + new
        and old != new
    ):
        yield f"{place}:"
        lines = difflib.unified_diff(
            old.splitlines(), new.splitlines(), lineterm="", n=0
        )
        yield from (
            f"  {line}" for line in islice(lines, 2, None) if not line.startswith("@@")
        )
    elif type(old) is not type(new) or old != new:
        yield f"{place}: {old!r:.200} became {new!r:.200}"


def tell(title: str, old: dict[str, Any], new: dict[str, Any], lines: int) -> bool:
    """Print the first differences of a part; whether there are none."""
    found = list(
        differences(dict(sorted(old.items())), dict(sorted(new.items())), title)
    )
    print(
        f"\n{title}: {len(old):,} items, {'equal' if not found else f'{len(found):,} lines of differences'}"
    )
    for line in found[:lines]:
        print(f"  {line[:1000]}")
    if len(found) > lines:
        print(f"  ... and {len(found) - lines:,} more (--lines)")
    return not found


def main() -> None:
    if sys.argv[1:] == ["--collect"]:
        collect()
        return
    if sys.argv[1:2] == ["--encoder"]:
        write_encoder(Path(sys.argv[2]))
        return
    given = read_arguments()
    parent = given.work or Path(tempfile.mkdtemp(prefix="golden-"))
    model = Model()
    server, url = serve(model)
    sides = [
        Side(
            name,
            checkout.resolve(),
            (own_bin or checkout / ".venv" / "bin").absolute(),
            parent.resolve() / name,
            url,
        )
        for name, checkout, own_bin in (
            ("old", given.old, given.old_bin),
            ("new", given.new, given.new_bin),
        )
    ]
    recipes = [side.checkout / _RECIPES for side in sides]
    if not recipes[0].is_dir():
        print(f"{given.old} has no {_RECIPES}: it runs those of {given.new}.")
        recipes[0] = recipes[1]
    for side in sides:
        write_inputs(side.folder)
    # Of both: its path is part of what is kept of a training.
    run_apart(sides[1], "--encoder", str(parent.resolve() / _ENCODER))
    with ThreadPoolExecutor(2) as threads:
        old, new = threads.map(work, sides, [model, model], recipes)
    server.shutdown()
    print(f"\nold took {old.seconds:.0f} s, new {new.seconds:.0f} s; {parent}")
    tell("files", old.files, new.files, given.lines)
    tell("wording", old.wording, new.wording, given.lines)
    same_keys = tell("keys", old.keys, new.keys, given.lines)
    same = tell("fixed", old.fixed, new.fixed, given.lines)
    if not given.work:
        shutil.rmtree(parent)
    sys.exit(0 if same and (same_keys or not given.keys) else 1)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="a checkout")
    parser.add_argument("new", type=Path, help="the other one")
    parser.add_argument("--old-bin", type=Path, help="if not given: OLD/.venv/bin")
    parser.add_argument("--new-bin", type=Path, help="if not given: NEW/.venv/bin")
    parser.add_argument(
        "--keys", action="store_true", help="fail where keys differ, too"
    )
    parser.add_argument(
        "--lines", type=int, default=40, help="of differences, for each part"
    )
    parser.add_argument(
        "--work", type=Path, help="a new folder to work in, which is kept"
    )
    return parser.parse_args()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
