"""What do a million requests take: time, memory and disk, stage by stage?

    python benchmarks/million.py FOLDER [--requests 20000] [--seed 0] [--until STEP]

The real commands on NumPy, whose written requests (recipes/data/numpy-written.jsonl) are what the texts
are made of. `texts` draws two of them for each new one, takes a sentence or two of each, puts other
numbers and occasions into them, and writes them as recorded replies; one in a hundred is a text of
before with one word changed, which the search for near-duplicates has to find. The loop plays them with
no latency: prompts, checks, journal, near-duplicates, bank. Each step is a process of its own:

- *texts*: the replies are written; not part of toolbank
- *sources*: `toolbank run --until sources`
- *generate*: the loop, until all replies are journaled and the bank is written
- *fold*: the loop again from the journal alone: checks, near-duplicates and parquet, no call
- *duplicates*: the search for near-duplicates alone, over the bank's texts, and its temporary file
- *open*, *filter*: `toolbank.load_bank`, and counts by split and tool in it
- *export*: `toolbank export --format jsonl`; *publish*: `toolbank publish` where there is that command
- *embed*: the first 50,000 requests by all-MiniLM-L6-v2, as retrievers embed them
- *bm25*, *words*: a BM25 over the tools' texts, and one over all train requests, fitted and asked for
  the first ten of 1,000 test requests

Peak memory is the kernel's count of the process (ru_maxrss). A step that is done stands in
FOLDER/REQUESTS/steps.json and is not done again, so that the same command goes on after a kill;
`generate` itself goes on from its journal, and its seconds and CPU are then those of the last start (its
record says how many starts there were).
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from toolbank.bank.files import read_column, read_records
from toolbank.system.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[1]
_WRITTEN = ROOT / "recipes" / "data" / "numpy-written.jsonl"
_ASKED = 1000
_EMBEDDED = 50_000
_PLANTED = 0.01
_SENTENCE = re.compile(r"(?<=[.?!]) +")
_NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w.,])")
_PLACES = [
    "harbour",
    "clinic",
    "orchard",
    "school",
    "bakery",
    "museum",
    "workshop",
    "library",
    "station",
    "farm",
    "brewery",
    "theatre",
    "garage",
    "quarry",
    "nursery",
    "stadium",
    "ferry",
    "laboratory",
    "vineyard",
    "warehouse",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PEOPLE = [
    "Ana",
    "Boris",
    "Chidi",
    "Dora",
    "Emeka",
    "Farida",
    "Goran",
    "Hana",
    "Igor",
    "Jamila",
    "Kofi",
    "Lena",
    "Marek",
    "Nadia",
    "Omar",
    "Petra",
    "Quinn",
    "Rosa",
    "Sami",
    "Tova",
    "Umar",
    "Vera",
    "Wanda",
    "Xenia",
    "Yusuf",
    "Zoe",
]
_OCCASIONS = (
    "This is for {person} at the {place}.",
    "It came from the {place} on {day}.",
    "{person} wants it by {day}.",
    "We keep these at the {place} for {person}, from {day} on.",
    "The {place} asked {person} about it last {day}.",
)

_RECIPE = """\
name: million
domain: numpy
seed: {seed}
sources:
  - type: python
    package: numpy
generate:
  engine: recorded
  replies: {replies}
  concurrency: 256
retrievers:
  - type: bm25
"""


@dataclass(frozen=True)
class Work:
    """How many requests are made in which folder, from which seed."""

    folder: Path
    requests: int
    seed: int


def main() -> None:
    given = read_arguments()
    folder = (given.folder / str(given.requests)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if given.step:
        measured = _STEPS[given.step](Work(folder, given.requests, given.seed))
        print(json.dumps(measured))
        return
    record = folder / "steps.json"
    done: dict[str, Any] = read_json(record) if record.is_file() else {}
    for step in _STEPS:
        if not done.get(step, {}).get("done"):
            starts = done.get(step, {}).get("starts", 0) + 1
            done[step] = {"starts": starts}
            write_json(record, done)
            done[step] = {"done": True, "starts": starts} | run_step(step, given)
            write_json(record, done)
            print(f"{step}: {done[step]}", file=sys.stderr)
        if step == given.until:
            break
    print(table(done))


def run_step(step: str, given: argparse.Namespace) -> dict[str, Any]:
    """One step in a process of its own: what it says, its seconds, CPU seconds and peak MB."""
    command = [sys.executable, __file__, str(given.folder), "--step", step]
    command += ["--requests", str(given.requests), "--seed", str(given.seed)]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said)
        _, status, used = os.wait4(process.pid, 0)
        said.seek(0)
        text = said.read().decode()
    if status:
        sys.exit(f"{step} failed: {text}")
    return {
        "s": round(time.monotonic() - begun, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        # The step's own process, or the command that it ran.
        "peak_mb": round(used.ru_maxrss / 1024),
        **json.loads(text.splitlines()[-1]),
    }


def texts(work: Work) -> dict[str, Any]:
    """Write the replies, a few hundredths more than requests: as many as are planted fail."""
    lines = [json.loads(line) for line in _WRITTEN.read_text("utf-8").splitlines()]
    path = work.folder / "replies.jsonl"
    planted = 0
    rng = random.Random(f"{work.seed}:million")
    recent: list[dict[str, Any]] = []
    with path.open("w", encoding="utf-8") as file:
        for _ in range(round(work.requests * (1 + 2 * _PLANTED))):
            plants = recent and rng.random() < _PLANTED
            reply = _alter(rng.choice(recent), rng) if plants else _compose(lines, rng)
            planted += bool(plants)
            if not plants:
                # Any of a thousand drawn from all before, so that old ones are repeated too.
                recent.append(reply)
                if len(recent) > 1000:
                    recent[rng.randrange(1000)] = recent.pop()
            file.write(json.dumps(reply, ensure_ascii=False) + "\n")
    return {"planted": planted, "disk_mb": _mb(path)}


def _compose(lines: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    first, second = rng.sample(lines, 2)
    tools = list(dict.fromkeys([*first["tools"], *second["tools"]]))[:5]
    offered = list(dict.fromkeys([*tools, *first["offered"]]))[:10]
    occasion = rng.choice(_OCCASIONS).format(
        person=rng.choice(_PEOPLE), place=rng.choice(_PLACES), day=rng.choice(_DAYS)
    )
    texts = {}
    for key in ("draft", "query"):
        parts = [*_some(first[key], rng), *_some(second[key], rng), occasion]
        texts[key] = _NUMBER.sub(lambda _: str(rng.randint(2, 9999)), " ".join(parts))
    explanation = f"{first['explanation']} {second['explanation']}"
    return {
        "offered": offered,
        "at_most": 5,
        **texts,
        "tools": tools,
        "explanation": explanation,
    }


def _some(text: str, rng: random.Random) -> list[str]:
    """One or two sentences that follow each other."""
    sentences = _SENTENCE.split(text)
    start = rng.randrange(len(sentences))
    return sentences[start : start + rng.randint(1, 2)]


def _alter(reply: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The same with the last word of its query changed: one 3-gram of some thirty."""
    words = reply["query"].split()
    return reply | {"query": " ".join([*words[:-1], rng.choice(_PEOPLE) + "."])}


def sources(work: Work) -> dict[str, Any]:
    recipe = work.folder / "million.yaml"
    recipe.write_text(
        _RECIPE.format(seed=work.seed, replies=work.folder / "replies.jsonl")
    )
    _toolbank("run", recipe, "--until", "sources", "--out", work.folder / "run")
    return _children()


def generate(work: Work) -> dict[str, Any]:
    run = work.folder / "run"
    wanted = f"--set=generate.queries={work.requests}"
    _toolbank("generate", work.folder / "million.yaml", "--out", run, wanted)
    info = read_json(run / "bank" / "bank.json")
    return _children() | {
        "counts": info["counts"],
        "journal_mb": _mb(run / "journal.sqlite"),
        "queries_mb": _mb(run / "bank" / "queries.parquet"),
        "attempts_mb": _mb(run / "bank" / "attempts.parquet"),
    }


def fold(work: Work) -> dict[str, Any]:
    run = work.folder / "run"
    before = (run / "bank" / "queries.parquet").read_bytes()
    (run / "bank" / "bank.json").unlink()
    wanted = f"--set=generate.queries={work.requests}"
    _toolbank("generate", work.folder / "million.yaml", "--out", run, wanted)
    same = before == (run / "bank" / "queries.parquet").read_bytes()
    return _children() | {"same_bytes": same}


def duplicates(work: Work) -> dict[str, Any]:
    from toolbank.requests.write.near_duplicates import NearDuplicates

    texts = read_column(work.folder / "run" / "bank" / "queries.parquet", "query")
    seen = NearDuplicates(0.8, lambda number: str(texts[number]))
    found = 0
    tenth = max(1, len(texts) // 10)
    rates = []
    begun = time.monotonic()
    for number, text in enumerate(texts):
        found += seen.find_like(text) is not None
        seen.add(text)
        if (number + 1) % tenth == 0:
            now = time.monotonic()
            rates.append(round(1e6 * (now - begun) / tenth))
            begun = now
    return {"found": found, "us_a_text_by_tenths": rates}


def open_bank(work: Work) -> dict[str, Any]:
    import toolbank

    bank = toolbank.load_bank(work.folder / "run")
    return {"queries": bank.queries.height, "attempts": bank.attempts.height}


def filter_bank(work: Work) -> dict[str, Any]:
    import polars as pl

    import toolbank

    queries = toolbank.load_bank(work.folder / "run").queries
    train = queries.filter(pl.col("split") == "train")
    uses = train.filter(pl.col("tools").list.contains("numpy.median"))
    most = train["tools"].explode().value_counts(sort=True).row(0)
    return {"train": train.height, "of_one_tool": uses.height, "most_used": most[0]}


def export(work: Work) -> dict[str, Any]:
    out = work.folder / "export"
    shutil.rmtree(out, ignore_errors=True)
    _toolbank("export", work.folder / "run", "--format", "jsonl", "--out", out)
    return _children() | {"disk_mb": _mb_below(out)}


def publish(work: Work) -> dict[str, Any]:
    if not (ROOT / "toolbank" / "commands" / "publish.py").is_file():
        return {"left_out": "there is no such command"}
    out = work.folder / "published"
    shutil.rmtree(out, ignore_errors=True)
    _toolbank("publish", work.folder / "run", "--to", out)
    return _children() | {"disk_mb": _mb_below(out)}


def embed(work: Work) -> dict[str, Any]:
    from toolbank.encoders import load_encoder
    from toolbank.encoders.sentence import SentenceConfig

    path = work.folder / "run" / "bank" / "queries.parquet"
    texts = read_column(path, "query").head(_EMBEDDED).to_list()
    encoder = load_encoder(SentenceConfig())
    begun = time.monotonic()
    vectors = encoder.encode_queries(texts)
    took = time.monotonic() - begun
    return {
        "texts": len(texts),
        "texts_a_second": round(len(texts) / took, 1),
        "vectors_mb": round(vectors.nbytes / 1e6, 1),
    }


def bm25(work: Work) -> dict[str, Any]:
    from toolbank.bank.bank import Bank
    from toolbank.bank.files import read_tools
    from toolbank.retrievers import create_retriever
    from toolbank.retrievers.settings import Bm25Config

    bank = Bank(read_tools(work.folder / "run" / "bank" / "tools.parquet"))
    retriever = create_retriever(Bm25Config())
    return _search(lambda: retriever.fit(bank), retriever.search, work.folder)


def words(work: Work) -> dict[str, Any]:
    import bm25s

    path = work.folder / "run" / "bank" / "queries.parquet"
    texts = read_column(path, "query").to_list()
    index = bm25s.BM25()

    def fit() -> None:
        index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(asked: list[str], k: int) -> Any:
        tokens = bm25s.tokenize(asked, show_progress=False)
        return index.retrieve(tokens, k=k, show_progress=False)

    return _search(fit, search, work.folder)


def _search(
    fit: Callable[[], Any], search: Callable[[list[str], int], Any], folder: Path
) -> dict[str, Any]:
    begun = time.monotonic()
    fit()
    fitted = time.monotonic()
    asked = list(_test_requests(folder))
    started = time.monotonic()
    search(asked, 10)
    took = time.monotonic() - started
    return {
        "fit_s": round(fitted - begun, 1),
        "asked": len(asked),
        "ms_a_request": round(1000 * took / len(asked), 2),
    }


def _test_requests(folder: Path) -> Iterator[str]:
    from itertools import islice

    from toolbank.bank.records import Query

    path = folder / "run" / "bank" / "queries.parquet"
    queries = (one for one in read_records(path, Query) if one.split == "test")
    return (query.query for query in islice(queries, _ASKED))


_STEPS: dict[str, Callable[[Work], dict[str, Any]]] = {
    "texts": texts,
    "sources": sources,
    "generate": generate,
    "fold": fold,
    "duplicates": duplicates,
    "open": open_bank,
    "filter": filter_bank,
    "export": export,
    "publish": publish,
    "embed": embed,
    "bm25": bm25,
    "words": words,
}


def _toolbank(*given: object) -> None:
    command = [sys.executable, "-m", "toolbank", *map(str, given)]
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=ROOT)


def _children() -> dict[str, Any]:
    """CPU seconds and peak of the command that the step ran."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


def _mb(path: Path) -> float:
    return round(path.stat().st_size / 1e6, 1)


def _mb_below(folder: Path) -> float:
    return round(sum(_mb(path) for path in folder.rglob("*") if path.is_file()), 1)


def table(done: dict[str, Any]) -> str:
    """A line a step, as Markdown."""
    lines = ["| step | s | CPU s | peak MB | else |", "|---|---:|---:|---:|---|"]
    for step, told in done.items():
        rest = {
            key: value
            for key, value in told.items()
            if key not in ("s", "cpu_s", "peak_mb", "done")
        }
        lines.append(
            f"| {step} | {told.get('s')} | {told.get('cpu_s')} | {told.get('peak_mb')} | {rest} |"
        )
    return "\n".join(lines)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where all of it is kept")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until", choices=list(_STEPS))
    parser.add_argument("--step", choices=list(_STEPS), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
