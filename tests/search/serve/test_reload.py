"""A newer version is taken while requests come; a damaged one is not."""

import asyncio
import shutil
import signal
import threading
import time

import pytest

from tests.search.packed.packs import TOOLS, write_pack
from tests.search.serve.servers import serving
from toolbank.search.serve import searches as shelves
from toolbank.search.serve.searches import Shelf
from toolbank.system.errors import InputError


def wait_for(server, tools):
    for _ in range(600):
        health = server.ask("/healthz").json
        if health["finders"]["finder"]["tools"] == tools:
            return health
        time.sleep(0.05)
    raise AssertionError(health)


def test_a_newer_version_is_taken(tmp_path):
    folder = tmp_path / "finder"
    write_pack(folder)
    with serving(folder) as server:
        assert server.ask("/search?q=send+a+letter").json["hits"]
        version = write_pack(folder, TOOLS[:4])
        health = wait_for(server, 4)
        assert health["finders"]["finder"]["version"] == version
        assert not server.ask("/search?q=send+a+letter").json["hits"]


def test_a_damaged_version_is_refused_and_the_old_one_goes_on(tmp_path):
    folder = tmp_path / "finder"
    write_pack(folder)
    with serving(folder) as server:
        version = write_pack(tmp_path / "new", TOOLS[:4])
        (tmp_path / "new/versions" / version / "tools.jsonl").write_bytes(b"{}")
        shutil.copytree(
            tmp_path / "new/versions" / version, folder / "versions" / version
        )
        (tmp_path / "new/finder.json").replace(folder / "finder.json")
        server.process.send_signal(signal.SIGHUP)
        told = next(line for line in server.read_errors() if "stays in use" in line)
        assert "tools.jsonl: damaged" in told
        assert server.ask("/search?q=send+a+letter").json["hits"]
        (folder / "finder.json").unlink()
        server.process.send_signal(signal.SIGHUP)
        assert "stays in use" in next(server.read_errors())
        write_pack(tmp_path / "right", TOOLS[:4])
        shutil.rmtree(folder)
        (tmp_path / "right").replace(folder)
        wait_for(server, 4)


def test_a_version_that_is_being_copied_is_taken_when_it_is_there(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(shelves, "_LOOKS", 0.02)
    folder, told = tmp_path / "finder", []
    write_pack(folder)
    shelf = shelves.Shelf({"finder": folder}, [], told.append)
    new = write_pack(tmp_path / "new", TOOLS[:4])

    async def watch():
        watching = asyncio.create_task(shelf.watch())
        shutil.copy(tmp_path / "new/finder.json", folder)
        while not told:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert len(told) == 1
        shutil.copytree(tmp_path / "new/versions" / new, folder / "versions" / new)
        while shelf["finder"].version != new:
            await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(asyncio.wait_for(watch(), 30))
    assert "stays in use" in told[0]


def test_a_tool_is_pinned_in_the_finders_that_have_it(tmp_path):
    for name, tools in (("a", TOOLS[:4]), ("b", TOOLS[4:])):
        write_pack(tmp_path / name, tools)
    folders = {name: tmp_path / name for name in "ab"}
    shelf = shelves.Shelf(folders, ["mail.read"], print)
    assert shelf["a"].pinned == ()
    assert [tool.name for tool in shelf["b"].pinned] == ["mail.read"]
    with pytest.raises(InputError, match=r"mail\.burn: can't be pinned"):
        shelves.Shelf(folders, ["mail.burn"], print)


@pytest.mark.parametrize("fault", [ImportError("no usearch"), KeyError("dim")])
def test_a_version_that_fails_in_any_way_is_refused_and_the_next_is_taken(
    tmp_path, monkeypatch, fault
):
    write_pack(tmp_path)
    told = []
    shelf = shelves.Shelf({"finder": tmp_path}, [], told.append)
    old = shelf["finder"].version
    new = write_pack(tmp_path, TOOLS[:4])

    def fail(*_):
        raise fault

    async def watch():
        watching = asyncio.create_task(shelf.watch())
        with monkeypatch.context() as patched:
            patched.setattr(shelves.Finder, "open", fail)
            while not told:
                await asyncio.sleep(0.01)
        assert shelf["finder"].version == old
        shelf.look_now()
        while len(told) < 2:
            await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(asyncio.wait_for(watch(), 30))
    assert type(fault).__name__ in told[0]
    assert f"Version {old} stays in use" in told[0]
    assert shelf["finder"].version == new


@pytest.mark.slow
def test_no_request_is_lost_while_versions_change(tmp_path):
    folder = tmp_path / "finder"
    write_pack(folder)
    stop, wrong, counts = threading.Event(), [], []

    def ask():
        times = 0
        while not stop.is_set():
            answer = server.ask("/search?q=play+a+song&k=1")
            if answer.status != 200 or answer.json["hits"][0]["name"] != "music.play":
                wrong.append(answer)
            times += 1
        counts.append(times)

    with serving(folder) as server:
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for turn in range(4):
            kept = TOOLS[: 8 - turn % 2 * 4]
            write_pack(folder, kept)
            wait_for(server, len(kept))
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert sum(counts) > 100


def test_requests_in_flight_are_answered_when_it_is_stopped(tmp_path):
    write_pack(tmp_path / "finder", TOOLS * 1)
    with serving(tmp_path / "finder") as server:
        answers = []
        body = {"queries": ["play a song for the house of a person"] * 32, "k": 8}

        def ask():
            answers.append(server.ask("/search", body).status)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        while (
            "searches_running 0" in server.ask("/metrics").body.decode() and not answers
        ):
            time.sleep(0.001)
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert server.process.wait(60) == 0
    assert answers == [200] * 16


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")])
def test_a_terminal_that_is_gone_does_not_end_reloading(tmp_path, error):
    write_pack(tmp_path)

    def tell(message):
        raise error

    shelf = Shelf({"home": tmp_path}, [], tell)

    async def watch():
        watching = asyncio.create_task(shelf.watch())
        for tools in (TOOLS[6:], TOOLS[:5]):
            write_pack(tmp_path, tools)
            shelf.look_now()
            async with asyncio.timeout(60):
                while len(shelf["home"].tools) != len(tools):
                    await asyncio.sleep(0.05)
        watching.cancel()

    asyncio.run(watch())
    assert shelf.reloads == 2
