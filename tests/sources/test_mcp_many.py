"""Many servers of one file: at most eight of them at once, and none left behind."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.shared import shared
from tests.sources.test_mcp_stdio import KIND, LIGHT, is_gone
from toolbank.sources.mcp.settings import McpSource


def write_servers(folder: Path, servers: dict[str, list], fault: str = "") -> Path:
    """A client's file of servers with these tools."""
    entries = {}
    for number, (name, tools) in enumerate(servers.items()):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(tools))
        args = ["-S", "-I", LIGHT, str(file), fault, "50"]
        entries[name] = {"command": sys.executable, "args": args}
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    return file


def trust_all(file: Path) -> str:
    """The line that trusts all commands of a file."""
    entries = json.loads(file.read_text())["mcpServers"].values()
    return ";".join(shlex.join(["start", e["command"], *e["args"]]) for e in entries)


class Watch:
    """Counts the processes that this one has started, again and again; `most` at one time."""

    def __enter__(self) -> Watch:
        self.most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _poll(self) -> None:
        before = set(self._children())
        while not self._stop.wait(0.002):
            self.most = max(self.most, len(set(self._children()) - before))

    def _children(self) -> list[str]:
        tasks = Path("/proc/self/task").glob("*/children")
        found = []
        for task in tasks:
            try:
                found += task.read_text().split()
            except OSError:
                continue
        return found


@pytest.mark.skipif(
    not any(Path("/proc/self/task").glob("*/children")), reason="looks into /proc"
)
def test_at_most_eight_servers_run_at_once(tmp_path, monkeypatch):
    tool = {"name": "t", "description": "T.", "inputSchema": {"type": "object"}}
    file = write_servers(tmp_path, {f"s{n:02}": [tool] for n in range(24)})
    monkeypatch.setenv("TOOLBANK_GRANTS", trust_all(file))
    with Watch() as watch:
        read = KIND.read(McpSource(config=file), tmp_path)
    assert [t.name for t in read.tools] == [f"s{n:02}/t" for n in range(24)]
    assert 1 < watch.most <= 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_process_behind(tmp_path, number):
    file = write_servers(tmp_path, {f"s{n}": [] for n in range(3)}, "hangs")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: mine\nsources: [{type: mcp, config: servers.json}]\n")
    command = ["-m", "toolbank", "run", str(recipe), "--until", "sources", "--out"]
    process = subprocess.Popen(
        [sys.executable, *command, str(tmp_path / "run")],
        env={**os.environ, "TOOLBANK_GRANTS": trust_all(file)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not all((tmp_path / f"{n}.json.asked").exists() for n in range(3)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in said
    assert all(is_gone(tmp_path / f"{n}.json.pid") for n in range(3))


def test_a_terminal_shows_which_servers_are_waited_for(tmp_path):
    file = write_servers(tmp_path, {"near": [], "far": []}, "hangs")
    theirs, ours = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbank", "tools", str(file)],
        env={**os.environ, "TOOLBANK_GRANTS": trust_all(file)},
        stdin=ours,
        stderr=ours,
    )
    os.close(ours)
    shown = b""
    while b"waiting for near, far" not in shown:
        shown += os.read(theirs, 4096)
    assert b"0 of 2 servers" in shown
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    os.close(theirs)


@pytest.mark.slow
def test_308_servers_are_read_back_exactly(tmp_path, monkeypatch):
    listed = json.loads(shared("data/mcp-tools/servers.json").read_text("utf-8"))
    servers = {
        server["name"]: [
            {
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        name: {"description": prose}
                        for name, prose in tool["parameter"].items()
                    },
                },
            }
            for tool in server["tools"]
        ]
        for server in listed
    }
    assert len(servers) == 308
    file = write_servers(tmp_path, servers)
    monkeypatch.setenv("TOOLBANK_GRANTS", trust_all(file))
    started = time.monotonic()
    with Watch() as watch:
        read = KIND.read(McpSource(config=file, timeout_s=120), tmp_path)
    print(f"{time.monotonic() - started:.1f} s, at most {watch.most} at once")
    assert watch.most <= 8
    assert read.complete
    expected = {}
    for server, tools in servers.items():
        for tool in tools:
            expected.setdefault(f"{server}/{tool['name']}", tool)
    assert [tool.name for tool in read.tools] == sorted(expected)
    for tool in read.tools:
        told = expected[tool.name]
        assert (
            " ".join(filter(None, (tool.summary, tool.description)))
            == told["description"]
        )
        assert tool.parameters == told["inputSchema"]
        assert f"{tool.call.source}/{tool.call.tool}" == tool.name
    names = [f"{s}/{t['name']}" for s, tools in servers.items() for t in tools]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    assert len(repeated) == 5
    assert sum(read.info["left_out"].values()) == 5
    assert len(names) == 2797 and len(read.tools) == 2792
