"""Real descriptions of OpenAPI, read: operations beside a count by other code, seconds, memory.

    python benchmarks/sources/openapi.py github.json okta.yaml
    python benchmarks/sources/openapi.py --split FOLDER github.json
    python benchmarks/sources/openapi.py --show 30 github.json okta.yaml

Each file is read in a process of its own: `SourceKind.read`, which is from the file to tools that
were checked, five times, the median in seconds of the clock and of the CPU; megabytes are the most
that the process had. `--split` first writes each path and each component into a file of its own.
`--show` prints what random operations take beside what the description says of them.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
TIMES = 5


def load(file: Path) -> Any:
    text = file.read_text("utf-8")
    if text.lstrip().startswith("{"):
        return json.loads(text)
    import yaml

    return yaml.load(text, yaml.CSafeLoader)  # the count's own reader


def count_operations(file: Path) -> int:
    """Methods under `paths`, by a walk that knows nothing of toolbank."""
    content, number = load(file), 0
    for item in content["paths"].values():
        if "$ref" in item and not item["$ref"].startswith("#"):
            item = load(file.parent / item["$ref"].split("#")[0])
        elif "$ref" in item:
            parts = item["$ref"][2:].split("/")
            item = content
            for part in parts:
                item = item[part.replace("~1", "/").replace("~0", "~")]
        number += len(METHODS & item.keys())
    return number


def split(file: Path, folder: Path) -> Path:
    """The same description with each path and component in a file of its own."""
    content = load(file)

    def rewritten(value: Any) -> Any:
        if isinstance(value, list):
            return [rewritten(one) for one in value]
        if not isinstance(value, dict):
            return value
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith("#/components/"):
            kind, name, *rest = target.split("/")[2:]
            pointer = f"#/{'/'.join(rest)}" if rest else ""
            return {**value, "$ref": f"../components/{kind}.{name}.json{pointer}"}
        return {key: rewritten(one) for key, one in value.items()}

    for name in ("paths", "components"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    paths = {}
    for number, (path, item) in enumerate(content["paths"].items()):
        (folder / "paths" / f"{number}.json").write_text(json.dumps(rewritten(item)))
        paths[path] = {"$ref": f"paths/{number}.json"}
    for kind, parts in content.pop("components", {}).items():
        for name, part in parts.items():
            one = folder / "components" / f"{kind}.{name}.json"
            one.write_text(json.dumps(rewritten(part)))
    target = folder / "openapi.json"
    target.write_text(json.dumps({**content, "paths": paths}))
    return target


def measure(file: Path) -> None:
    """One row: what the process for a file prints."""
    config = OpenApiSource(spec=str(file))
    KIND.version(config)
    walls, cpus = [], []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), time.process_time()
        collected = KIND.read(config, file.parent)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    left_out = sum(collected.info["left_out"].values())
    version = load(file)
    row = [
        file.name,
        str(version.get("openapi") or version.get("swagger")),
        f"{sum(one.stat().st_size for one in files_of(file)) / 1e6:.2f}",
        f"{count_operations(file):,}",
        f"{len(collected.tools):,}",
        f"{left_out:,}",
        f"{len(collected.problems)}, {len(collected.notes)}",
        f"{statistics.median(walls):.2f}",
        f"{statistics.median(cpus):.2f}",
        f"{peak:.0f}",
    ]
    print(f"| {' | '.join(row)} |")


def files_of(file: Path) -> list[Path]:
    folder = file.parent
    parts = [*folder.glob("paths/*.json"), *folder.glob("components/*.json")]
    return [file, *parts]


def show(files: list[Path], number: int) -> None:
    """Random operations of all files: the description's own words, and what was read."""
    tools = [
        (file, tool)
        for file in files
        for tool in KIND.read(OpenApiSource(spec=str(file)), file.parent).tools
    ]
    for file, tool in random.Random(0).sample(tools, min(number, len(tools))):
        call: Any = tool.call
        said = load(file)["paths"][call.path]
        own = said.get(call.method.lower(), {})
        print(f"== {file.name} {tool.signature} -> {tool.name}")
        listed = [*said.get("parameters", []), *own.get("parameters", [])]
        print("  said:", json.dumps([listed, own.get("requestBody")])[:1500])
        print("  read:", json.dumps(tool.parameters)[:1500])
        places = [(one.property, one.place, one.name) for one in call.arguments]
        print("  call:", call.content_type, call.server, places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--split", type=Path)
    parser.add_argument("--show", type=int)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given.files[0])
        return
    if given.show:
        show(given.files, given.show)
        return
    print(
        "| file | version | MB | operations, counted | tools | left out | problems, notes | s | CPU s | peak MB |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    files = (
        [split(one, given.split) for one in given.files] if given.split else given.files
    )
    for file in files:
        subprocess.run([sys.executable, __file__, "--one", str(file)], check=True)


if __name__ == "__main__":
    main()
