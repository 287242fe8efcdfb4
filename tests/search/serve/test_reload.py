"""A newer version is taken while requests come; a damaged one is not."""

import asyncio
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from unittest.mock import Mock

import pytest

from tests.search.packed.packs import TOOLS, write_pack
from tests.search.serve.servers import serving
from toolbank.search.serve import searches
from toolbank.search.serve.searches import Shelf
from toolbank.system.errors import InputError


def wait_for(server, tools):
    for _ in range(600):
        health = server.ask("/healthz").json
        if health["finders"]["finder"]["tools"] == tools:
            return health
        time.sleep(0.05)
    raise AssertionError(health)


def test_a_damaged_version_is_refused_and_a_newer_one_is_taken(tmp_path):
    folder = tmp_path / "finder"
    write_pack(folder)
    with serving(folder) as server:
        newer = write_pack(folder, TOOLS[:6])
        health = wait_for(server, 6)
        assert health["finders"]["finder"]["version"] == newer
        version = write_pack(tmp_path / "new", TOOLS[:4])
        (tmp_path / "new/versions" / version / "tools.jsonl").write_bytes(b"{}")
        shutil.copytree(tmp_path / "new", folder, dirs_exist_ok=True)
        server.process.send_signal(signal.SIGHUP)
        told = next(line for line in server.read_errors() if "stays in use" in line)
        assert "tools.jsonl: damaged" in told
        assert server.ask("/search?q=bell").json["hits"]
        (folder / "finder.json").unlink()
        server.process.send_signal(signal.SIGHUP)
        assert "stays in use" in next(server.read_errors())
        write_pack(tmp_path / "right", TOOLS[:4])
        shutil.rmtree(folder)
        (tmp_path / "right").replace(folder)
        wait_for(server, 4)


@asynccontextmanager
async def watching(shelf):
    """A shelf that looks for newer versions; it may take 60 seconds."""
    task = asyncio.create_task(shelf.watch())
    async with asyncio.timeout(60):
        yield
    task.cancel()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_version_is_taken_once_it_is_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(searches, "_LOOKS", 0.02)
    folder, told = tmp_path / "finder", []
    write_pack(folder)
    shelf = Shelf({"finder": folder}, [], told.append)
    new = write_pack(tmp_path / "new", TOOLS[:4])

    async def watch():
        async with watching(shelf):
            shutil.copy(tmp_path / "new/finder.json", folder)
            await until(lambda: told)
            await asyncio.sleep(0.2)
            assert len(told) == 1
            shutil.copytree(tmp_path / "new/versions" / new, folder / "versions" / new)
            await until(lambda: shelf["finder"].version == new)

    asyncio.run(watch())
    assert "stays in use" in told[0]


def test_a_tool_is_pinned_in_the_finders_that_have_it(tmp_path):
    for name, tools in (("a", TOOLS[:4]), ("b", TOOLS[4:])):
        write_pack(tmp_path / name, tools)
    folders = {name: tmp_path / name for name in "ab"}
    shelf = Shelf(folders, ["mail.read"], print)
    assert shelf["a"].pinned == ()
    assert [tool.name for tool in shelf["b"].pinned] == ["mail.read"]
    with pytest.raises(InputError, match=r"mail\.burn: cannot be pinned"):
        Shelf(folders, ["mail.burn"], print)


@pytest.mark.parametrize("fault", [ImportError("no usearch"), KeyError("dim")])
def test_a_version_that_fails_is_refused_and_the_next_not(tmp_path, monkeypatch, fault):
    write_pack(tmp_path)
    told = []
    shelf = Shelf({"finder": tmp_path}, [], told.append)
    old = shelf["finder"].version
    new = write_pack(tmp_path, TOOLS[:4])

    async def watch():
        async with watching(shelf):
            with monkeypatch.context() as patched:
                patched.setattr(searches.Finder, "open", Mock(side_effect=fault))
                await until(lambda: told)
            assert shelf["finder"].version == old
            shelf.look_now()
            await until(lambda: len(told) == 2)

    asyncio.run(watch())
    assert type(fault).__name__ in told[0]
    assert f"Version {old} stays in use" in told[0]
    assert shelf["finder"].version == new


@pytest.mark.slow
def test_no_request_is_lost_while_versions_change(tmp_path):
    folder = tmp_path / "finder"
    write_pack(folder)
    stop, wrong = threading.Event(), []

    def ask():
        times = 0
        while not stop.is_set():
            answer = server.ask("/search?q=play+a+song&k=1")
            if answer.status != 200 or answer.json["hits"][0]["name"] != "music.play":
                wrong.append(answer)
            times += 1
        return times

    with serving(folder) as server, ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(ask) for _ in range(8)]
        try:
            for turn in range(4):
                kept = TOOLS[: 8 - turn % 2 * 4]
                write_pack(folder, kept)
                wait_for(server, len(kept))
        finally:
            stop.set()
        assert sum(one.result() for one in asking) > 100
    assert not wrong


def test_requests_in_flight_are_answered_when_it_is_stopped(tmp_path):
    write_pack(tmp_path / "finder")
    body = {"queries": ["play a song for the house of a person"] * 32, "k": 8}

    def ask():
        return server.ask("/search", body).status

    with serving(tmp_path / "finder") as server, ThreadPoolExecutor(16) as threads:
        asking = [threads.submit(ask) for _ in range(16)]
        while "searches_running 0" in server.ask("/metrics").body.decode():
            if any(one.done() for one in asking):
                break
        server.process.send_signal(signal.SIGTERM)
        assert [one.result() for one in asking] == [200] * 16
        assert server.process.wait(60) == 0


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")])
def test_a_terminal_that_is_gone_does_not_end_reloading(tmp_path, error):
    write_pack(tmp_path)
    shelf = Shelf({"home": tmp_path}, [], Mock(side_effect=error))

    async def watch():
        async with watching(shelf):
            for reloads, tools in enumerate((TOOLS[6:], TOOLS[:5])):
                write_pack(tmp_path, tools)
                shelf.look_now()
                await until(lambda reloads=reloads: shelf.reloads > reloads)

    asyncio.run(watch())
    assert len(shelf["home"].tools) == 5
