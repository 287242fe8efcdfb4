import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from tests.sources.mcp_servers import KIND, grants, is_gone, light, list_servers
from toolbank.sources.mcp.settings import McpSource


def children():
    found = set()
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found |= {*task.read_text().split()}
        except OSError:
            continue
    return found


@pytest.mark.skipif(
    not any(Path("/proc/self/task").glob("*/children")), reason="looks into /proc"
)
def test_at_most_eight_servers_run_at_once(tmp_path, monkeypatch):
    tool = {"name": "t", "description": "T.", "inputSchema": {"type": "object"}}
    names = [f"s{n:02}" for n in range(24)]
    entries = {name: light(tmp_path, name, tools=[tool]) for name in names}
    monkeypatch.setenv("TOOLBANK_GRANTS", grants(*entries.values()))
    counts, before, stop = [0], children(), threading.Event()

    def watch():
        while not stop.wait(0.002):
            counts.append(len(children() - before))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        source = McpSource(config=list_servers(tmp_path, entries))
        read = KIND.read(source, tmp_path)
    finally:
        stop.set()
        thread.join()
    assert [t.name for t in read.tools] == [f"{name}/t" for name in names]
    assert 1 < max(counts) <= 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_a_terminal_shows_the_servers_waited_for_and_a_stop_ends_them(tmp_path, number):
    entries = {name: light(tmp_path, name, "hangs") for name in ("near", "far")}
    list_servers(tmp_path, entries)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: mine\nsources: [{type: mcp, config: servers.json}]\n")
    command = ["-m", "toolbank", "run", str(recipe), "--until", "sources", "--out"]
    theirs, ours = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [sys.executable, *command, str(tmp_path / "run")],
        env={**os.environ, "TOOLBANK_GRANTS": grants(*entries.values())},
        stdin=ours,
        stderr=ours,
    )
    os.close(ours)
    shown = b""
    while b"waiting for near, far" not in shown:
        shown += os.read(theirs, 4096)
    assert b"0 of 2 servers" in shown
    while not all((tmp_path / f"{name}.json.asked").exists() for name in entries):
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == 1
    assert b"Traceback" not in os.read(theirs, 100_000)
    os.close(theirs)
    assert all(is_gone(tmp_path / f"{name}.json.pid") for name in entries)
