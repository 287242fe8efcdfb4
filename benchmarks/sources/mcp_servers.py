"""How long does reading the tools of an MCP server take?

    python benchmarks/sources/mcp_servers.py [--tools 3000] [--page 100] [--runs 5]

A server of the SDK, by stdio and by HTTP (streamable, on loopback), and one without any library, which starts
at once. `seconds` are those of the whole reading, with the start of a server that is started; `CPU` is
this process's. Where the machine does other things too, the best run says most.
"""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from toolbank.sources import SOURCES
from toolbank.sources.mcp.settings import McpSource

_SERVERS = Path(__file__).parents[2] / "tests" / "sources"
_KIND = SOURCES.find("mcp", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=3000)
    parser.add_argument("--page", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; {asked.tools:,} tools, {asked.page} a page")
    sdk = [
        sys.executable,
        str(_SERVERS / "sdk_mcp.py"),
        str(asked.tools),
        str(asked.page),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        light = write_light(folder / "tools.json", asked.tools, asked.page)
        measure(
            "stdio, no library", McpSource(command=light), asked.tools, asked, folder
        )
        alone = [*sdk[:2], "1", "1"]
        start = measure(
            "stdio, SDK, a single tool", McpSource(command=alone), 1, asked, folder
        )
        whole = measure(
            "stdio, SDK", McpSource(command=sdk), asked.tools, asked, folder
        )
        print(f"stdio, SDK, without its start: {whole - start:.2f} s")
        with serving([*sdk, "http"]) as url:
            measure("HTTP, SDK", McpSource(url=url), asked.tools, asked, folder)


def measure(
    what: str, source: McpSource, tools: int, asked: argparse.Namespace, folder: Path
) -> float:
    """Read the source some times, and say how long it took; gives the seconds of the best."""
    if source.command:
        os.environ["TOOLBANK_GRANTS"] = f"start {shlex.join(source.command)}"
    seconds, cpu = [], []
    # The first one imports the SDK.
    for _ in range(asked.runs + 1):
        started, used = time.perf_counter(), time.process_time()
        read = _KIND.read(source, folder)
        assert len(read.tools) == tools
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    print(
        f"{what}: {median(seconds[1:]):.2f} s (best {min(seconds[1:]):.2f}, first "
        f"{seconds[0]:.2f}), CPU {median(cpu[1:]):.2f} s"
    )
    return min(seconds[1:])


def write_light(file: Path, tools: int, page: int) -> list[str]:
    properties = {
        f"argument_{n}": {"type": "string", "description": f"The {n}th."}
        for n in range(5)
    }
    schema = {"type": "object", "properties": properties}
    told = [
        {"name": f"tool_{n}", "description": f"Does {n}.", "inputSchema": schema}
        for n in range(tools)
    ]
    file.write_text(json.dumps(told))
    server = str(_SERVERS / "light_mcp.py")
    return [sys.executable, "-S", "-I", server, str(file), "", str(page)]


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
