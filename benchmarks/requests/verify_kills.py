"""Verify the labels of a run by a server with a fixed rule, killed again and again.

    python benchmarks/requests/verify_kills.py runs/quickstart --kills 10

Two copies of the run are verified, one of them killed with SIGKILL after some calls of each start. Prints how
many calls the server had for either, and whether their labels are the same bytes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.servers.chat import Answer, Call, ChatServer

CALLS = (20, 150)


def grade(call: Call) -> Answer:
    """Needed are the two candidates that share most words with the request, by name where equal."""
    request = re.search(r"<request>\n(.*)\n</request>", call.prompt, re.DOTALL)
    assert request
    words = set(re.findall(r"[a-z]{4,}", request[1].lower()))
    listed = call.prompt.partition("# The tools\n")[2].partition("# How")[0]
    tools = dict(re.findall(r"^- ([\w.]+)(.*)$", listed, re.MULTILINE))
    shared = {
        name: len(words & set(re.findall(r"[a-z]{4,}", text.lower())))
        for name, text in tools.items()
    }
    first, second, third = sorted(shared, key=lambda name: (-shared[name], name))[:3]
    time.sleep(0.05)
    return Answer.json(
        {
            "needed": [
                {"tool": first, "why": "words"},
                {"tool": second, "why": "words"},
            ],
            "alternatives": [{"tool": third, "for": first, "why": "words"}],
            "aside": "",
        }
    )


def start(run: Path, url: str) -> subprocess.Popen[bytes]:
    """Begin or go on with the verification of a run."""
    settings = ("engine=openai", f"base_url={url}", "model=m", "api_key_env=null")
    options = [part for one in settings for part in ("--set", f"verify.{one}")]
    command = [sys.executable, "-m", "toolbank", "verify", str(run), *options]
    return subprocess.Popen([*command, "--set", "verify.concurrency=8"])


def verify(run: Path, kills: int) -> tuple[int, bytes]:
    """How many calls it took, and the labels."""
    random = Random(0)
    with ChatServer(grade) as server:
        for _ in range(kills):
            enough = len(server.calls) + random.randrange(*CALLS)
            process = start(run, server.url)
            while len(server.calls) < enough and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.wait()
        if start(run, server.url).wait():
            raise SystemExit(f"{run}: failed")
        return len(server.calls), (run / "bank" / "labels.parquet").read_bytes()


def main() -> None:
    """Compare a run that was killed with one that was not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for kills in (given.kills, 0):
            copy = Path(folder) / f"killed-{kills}"
            shutil.copytree(given.run, copy)
            found[kills] = verify(copy, kills)
            print(f"{kills} kills: {found[kills][0]:,} calls")
        same = found[given.kills][1] == found[0][1]
        print(f"labels: {'the same bytes' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
