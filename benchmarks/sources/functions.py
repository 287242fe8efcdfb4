"""How long does it take to read a long list of functions, and to write it in each form?

    python benchmarks/sources/functions.py [--functions 100000]

The functions are made by seed: a name, two paragraphs and five parameters each, one of three an object. The
list is written to a file once in OpenAI's form, 0.9 kB a function, and read as the source `functions` does, in a
process of its own: seconds, CPU and peak resident memory, with its check of every schema. Then it is written
in each form, and each form is read back and compared with what went out.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from toolbank.bank.function_reader import find_functions, read_entry
from toolbank.bank.function_writer import FORMS, wrap_functions, write_function
from toolbank.bank.records import Tool

_WORDS = [
    "find",
    "list",
    "create",
    "send",
    "city",
    "order",
    "account",
    "invoice",
    "weather",
    "photo",
    "by",
    "date",
    "of",
]


def make_tool(number: int) -> Tool:
    """A tool that is the same for one number every time."""
    draw = random.Random(number)

    def text(words: int) -> str:
        return " ".join(draw.choice(_WORDS) for _ in range(words))

    inner = {"type": "object", "properties": {"id": {"type": "integer"}}}
    properties = {
        f"{draw.choice(_WORDS)}_{n}": {"type": "string", "description": text(8)}
        if n % 3
        else {**inner, "description": text(5)}
        for n in range(5)
    }
    return Tool(
        name=f"tool_{number}",
        summary=f"{text(8).capitalize()}.",
        description=f"{text(30).capitalize()}.",
        parameters={"type": "object", "properties": properties},
    )


def read(path: Path) -> None:
    """Read a file as the source does, and print what it took."""
    from toolbank.sources.functions import KIND, FunctionsSource

    started, used = time.perf_counter(), time.process_time()
    tools = KIND.read(FunctionsSource(path=path), path.parent).tools
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(tools):,} functions of {path.stat().st_size / 1e6:.0f} MB: "
        f"{time.perf_counter() - started:.1f} s, CPU {time.process_time() - used:.1f} s, "
        f"peak {peak_mb:,.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", type=int, default=100_000)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    tools = [make_tool(number) for number in range(given.functions)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tools.json")
        path.write_text(json.dumps([write_function(t, "openai")[0] for t in tools]))
        for _ in range(3):
            subprocess.run([sys.executable, __file__, "--read", path], check=True)
    for form in FORMS:
        started = time.perf_counter()
        written = wrap_functions([write_function(t, form)[0] for t in tools], form)
        took = time.perf_counter() - started
        started = time.perf_counter()
        back = [read_entry(entry) for _, entry in find_functions(written)]
        print(
            f"{form}: written in {took:.1f} s, read in {time.perf_counter() - started:.1f} s, "
            f"{sum(a == b for a, b in zip(tools, back, strict=True)):,} the same"
        )


if __name__ == "__main__":
    main()
