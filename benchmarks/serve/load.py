"""How many requests a server answers, and how late, by how many clients.

    python benchmarks/serve/load.py FINDER SECONDS CLIENTS [CLIENTS ...]

Megabytes are those of the server after two minutes, where it goes on for longer, and at the end. The server runs in a process of its own, and so do the clients; the processor time of each is told
apart. Each request is one of the natural ones with a number, so that no vector is remembered.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import aiohttp
import numpy as np

ROWS = Path(__file__).parents[2] / "recipes/data/numpy-natural.jsonl"
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(pid):
    line = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(line[1]) / 1024


async def ask(address, clients, seconds, look):
    texts = [json.loads(line)["query"] for line in ROWS.read_text().splitlines()]
    texts = [text for text in texts if text]
    numbers, late, statuses, end = count(), [], {}, time.monotonic() + seconds

    async def client(session):
        while time.monotonic() < end:
            number = next(numbers)
            asked = {"q": f"{texts[number % len(texts)]} ({number})"}
            began = time.perf_counter()
            async with session.get(f"{address}search", params=asked) as answer:
                await answer.read()
            late.append(time.perf_counter() - began)
            statuses[answer.status] = statuses.get(answer.status, 0) + 1

    connector = aiohttp.TCPConnector(limit=0)
    asyncio.get_running_loop().call_later(120, look)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
    return late, statuses


def main(finder, seconds, clients):
    command = [sys.executable, "-m", "toolbank", "serve", finder, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = re.search(r"http://\S+", server.stdout.readline())[0]
    print(
        "clients  requests/s   p50 ms   p99 ms  server CPU ms  client CPU ms  MB  answers"
    )
    for n in clients:
        before, own = cpu(server.pid), time.process_time()
        sizes = []
        late, statuses = asyncio.run(
            ask(address, n, seconds, lambda s=sizes: s.append(resident(server.pid)))
        )
        sizes.append(resident(server.pid))
        used, ours = cpu(server.pid) - before, time.process_time() - own
        p50, p99 = 1000 * np.percentile(late, [50, 99])
        print(
            f"{n:7} {len(late) / seconds:11.1f} {p50:8.1f} {p99:8.1f} "
            f"{1000 * used / len(late):14.2f} {1000 * ours / len(late):14.2f} "
            f"{' '.join(f'{size:.1f}' for size in sizes)}  {statuses}",
            flush=True,
        )
    server.terminate()
    print("stopped with", server.wait())


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), [int(n) for n in sys.argv[3:]])
