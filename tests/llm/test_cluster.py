"""Engines in workers of a Ray cluster. What starts Ray, which takes seconds each time, is slow."""

import asyncio
import json
import os
import pickle
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import pytest

from tests.run.test_interrupt import Held, Terminal
from tests.servers.chat import Answer, ChatServer
from tests.servers.kill import digest
from tests.servers.named import grant_of
from tests.world import good, write_recipe
from toolbank.llm.chat import ChatReply, EngineError, Message
from toolbank.llm.cluster import EngineWorker
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.pool import make_engine
from toolbank.requests.write.config import GenerateConfig
from toolbank.system import extras
from toolbank.system.errors import InputError
from toolbank.testing.engines import polish_request

TOOLBANK = str(Path(sys.executable).with_name("toolbank"))
STAND_IN = Path(__file__).parent / "vllm_stand_in"
KEY = "sk-test-5f1c9a7e42d84be6b1c3a90fd2e7c815"
BANK = ("tools.parquet", "queries.parquet", "attempts.parquet")
QUERIES, IN_FLIGHT = 60, 8
# Ray's own, which else is written into the home folder and read from there.
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a1" * 32}


def on_ray(**settings):
    return GenerateConfig(executor="ray", **{"model": "m", **settings})


def make(config):
    return make_engine(find_engine(config), config, EngineContext())


def test_without_ray_it_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    config = on_ray(base_url="http://127.0.0.1:1/v1")
    for refuse in (find_engine(config).check_access, make):
        with pytest.raises(InputError, match=r"generate\.executor .*\[ray\]"):
            refuse(config)


def test_where_ray_does_not_start_it_is_told(monkeypatch):
    def init(*_, **__):
        raise Exception("The current node timed out during startup.")  # its own words

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(extras, "find_spec", lambda _: True)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with pytest.raises(InputError, match="timed out"):
        make(on_ray(base_url="http://127.0.0.1:1/v1"))


def test_a_model_has_room_for_all_its_gpus():
    laid_out = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}
    config = on_ray(engine="vllm", options=laid_out)
    assert find_engine(config).gpus(config) == 8


def test_a_failure_comes_from_another_process_as_it_was():
    error = EngineError("no", reason="http-429", retryable=True, retry_after=3.0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (EngineError, "no", vars(error))


def ask_worker(config, routes=(), calls=1):
    """What a worker in this process says of itself, and what it gives."""

    async def talk():
        worker = EngineWorker(config, EngineContext(), routes)
        who = await worker.introduce()
        if isinstance(who, InputError):
            return who, []
        await worker.take([(n, polish_request(n)) for n in range(calls)], [])
        got = []
        while len(got) < calls:
            got += await worker.collect()
        await worker.close()
        return who, [outcome for _, outcome in sorted(got, key=lambda one: one[0])]

    return asyncio.run(asyncio.wait_for(talk(), 30))


def test_a_worker_uses_the_key_of_its_own_environment_and_hides_it(monkeypatch):
    def script(call):
        key = call.headers["authorization"]
        return Answer.error(401, key) if call.number else Answer.text(key)

    with ChatServer(script) as server:
        config = GenerateConfig(base_url=server.url, model="m")
        route = "OPENAI_API_KEY", server.url.removesuffix("/v1")
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        who, _ = ask_worker(config, [route])
        assert "OPENAI_API_KEY" in str(who)
        assert not server.calls
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        _, (reply,) = ask_worker(config, [route])
        assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
        assert reply.text == "Bearer ***"
        _, (error,) = ask_worker(config, [route])
    assert (error.reason, error.fatal) == ("refused-key", True)
    assert KEY not in str(error)


def arguments(url, out, workers):
    settings = {"model": "m", "queries": QUERIES, "concurrency": IN_FLIGHT}
    settings |= {"engine": "openai", "base_url": url}
    if workers:
        settings |= {"executor": "ray", "workers": workers}
    changes = [f"--set=generate.{key}={value}" for key, value in settings.items()]
    return [TOOLBANK, "run", "mine.yaml", "--out", out, "--until=generate", *changes]


def surroundings(url, **more):
    return os.environ | {
        "OPENAI_API_KEY": KEY,
        "TOOLBANK_GRANTS": grant_of(url),
        **TOKEN,
        **more,
    }


@contextmanager
def running(folder, server, out, workers, **more):
    """The command; its output is in `told` of what is given once it has ended."""
    with subprocess.Popen(
        arguments(server.url, out, workers),
        cwd=folder,
        env=surroundings(server.url, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(folder, server, out, workers, **more):
    with running(folder, server, out, workers, **more) as process:
        told, _ = process.communicate(timeout=300)
    return process.returncode, told


def bank(folder, out):
    return [(folder / out / "bank" / name).read_bytes() for name in BANK]


def workers_of(pid):
    """The processes of workers below one."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    titles = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in found}
    return [one for one, title in titles.items() if b"EngineWorker" in title]


def digests(server):
    return [digest(call.body["messages"]) for call in server.calls]


@pytest.fixture
def alone(tmp_path):
    """A folder with the recipe, and the bank of one process: `alone`."""
    write_recipe(tmp_path)
    with ChatServer(good) as server:
        code, told = run(tmp_path, server, "alone", workers=0)
        assert code == 0, told
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_bank_has_the_same_bytes_and_the_key_is_written_nowhere(alone, workers):
    sessions = set(Path("/tmp/ray").glob("session_2*"))
    with ChatServer(good) as server:
        code, told = run(alone, server, "many", workers)
        assert code == 0, told
        sent = {call.headers["authorization"] for call in server.calls}
    assert sent == {f"Bearer {KEY}"}
    assert len(server.calls) == len(set(digests(server)))
    assert bank(alone, "many") == bank(alone, "alone")
    written = [*set(Path("/tmp/ray").glob("session_2*")) - sessions, alone]
    assert len(written) > 1
    for file in (file for top in written for file in top.rglob("*")):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


@pytest.mark.slow
def test_what_a_killed_worker_had_in_flight_is_asked_again_and_nothing_else(alone):
    process, killed = None, []
    lock = threading.Lock()

    def script(call):
        with lock:
            if call.number == QUERIES and not killed:
                victim = workers_of(process.pid)[0]
                killed.append(victim)
                # Those in no file would be in its arguments, if anywhere.
                assert KEY.encode() not in Path(f"/proc/{victim}/cmdline").read_bytes()
                os.kill(victim, signal.SIGKILL)
        return good(call)

    with ChatServer(script) as server:
        with running(alone, server, "killed", workers=2) as process:
            told, _ = process.communicate(timeout=300)
        assert process.returncode == 0, told
    assert killed
    assert "has ended, and another is started" in told
    asked = digests(server)
    twice = {one for one in asked if asked.count(one) > 1}
    assert len(asked) - len(set(asked)) <= IN_FLIGHT
    assert twice.isdisjoint(asked[: QUERIES - 2 * IN_FLIGHT])
    assert bank(alone, "killed") == bank(alone, "alone")
    with sqlite3.connect(alone / "killed" / "journal.sqlite") as journal:
        assert not journal.execute("SELECT count(*) FROM failures").fetchone()[0]


@pytest.mark.slow
def test_after_ctrl_c_what_is_in_flight_in_workers_is_kept(alone, monkeypatch):
    held = Held(first=40)
    with ChatServer(held) as server:
        for name, value in surroundings(server.url).items():
            monkeypatch.setenv(name, value)
        terminal = Terminal(arguments(server.url, "many", workers=2), alone)
        for _ in range(IN_FLIGHT):
            assert held.in_flight.acquire(timeout=120)
        terminal.press_ctrl_c()
        terminal.wait_for(f"finishing {IN_FLIGHT} calls in flight")
        held.let_go.set()
        assert terminal.wait_for_end() == 1
        asked = digests(server)
        assert len(asked) == len(set(asked)) == 40 + IN_FLIGHT
        code, told = run(alone, server, "many", workers=0)
        assert code == 0, told
        # What workers have answered, one process finds in the journal.
        assert len(server.calls) == len(set(digests(server)))
    assert bank(alone, "many") == bank(alone, "alone")


@pytest.fixture
def cluster(tmp_path):
    """The address of a cluster whose nodes have the environment that they are started with."""
    started = []

    def begin(**environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = min(free.getsockname()[1], 65_000)
        command = ["start", "--head", "--block", "--include-dashboard=false"]
        command += [f"--port={port}", "--num-cpus=2", "--disable-usage-stats"]
        command += [f"--ray-client-server-port={port + 1}"]
        with (tmp_path / "ray.log").open("w") as log:
            process = subprocess.Popen(
                [Path(TOOLBANK).with_name("ray"), *command],
                env={
                    **os.environ,
                    "RAY_USAGE_STATS_ENABLED": "0",
                    **TOKEN,
                    **environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        told = ""
        while not (found := re.search(r"--address='(.*?)'", told)):
            assert process.poll() is None, told
            sleep(0.1)
            told = (tmp_path / "ray.log").read_text()
        return found[1]

    yield begin
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_a_cluster_by_its_address_needs_the_key_on_its_nodes(alone, cluster):
    with ChatServer(good) as server:
        address = cluster()
        code, told = run(alone, server, "other", 2, RAY_ADDRESS=address)
        assert code == 2
        said = " ".join(told.split())
        assert "OPENAI_API_KEY is not set on the worker" in said
        assert not server.calls
        no_token = {"RAY_ADDRESS": address, "RAY_AUTH_MODE": "disabled"}
        code, told = run(alone, server, "other", 2, **no_token)
        assert code == 2
        assert "wants its token. Set RAY_AUTH_MODE=token" in " ".join(told.split())
        with_key = surroundings(server.url)
        address = cluster(OPENAI_API_KEY=with_key["OPENAI_API_KEY"])
        code, told = run(alone, server, "other", 2, RAY_ADDRESS=address)
        assert code == 0, told
    assert bank(alone, "other") == bank(alone, "alone")


@pytest.mark.slow
def test_an_address_where_no_cluster_answers_is_told(alone):
    with ChatServer(good) as server:
        code, told = run(alone, server, "other", 1, RAY_ADDRESS="127.0.0.1:1")
    assert code == 2
    assert "RAY_ADDRESS: no cluster of Ray could be joined" in " ".join(told.split())
    assert "Traceback" not in told


@pytest.mark.slow
def test_each_worker_has_a_model_of_its_own_on_gpus_of_its_own(monkeypatch):
    import ray

    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Ray sets the mode itself: in a process that has imported it, one that is set counts no more.
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN["RAY_AUTH_TOKEN"])
    ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False)
    try:

        def request(attempt, **prompt):
            message = Message("user", json.dumps({"text": f"{attempt}", **prompt}))
            return replace(polish_request(attempt), messages=(message,))

        async def talk(engine):
            try:
                calls = [engine.answer(request(n)) for n in range(6)]
                calls.append(engine.answer(request(6, refuse="too long")))
                return await asyncio.gather(*calls, return_exceptions=True)
            finally:
                await engine.close()

        config = on_ray(engine="vllm", workers=2)
        *replies, error = asyncio.run(talk(make(config)))
        assert [reply.text for reply in replies] == list("012345")
        assert all(isinstance(reply, ChatReply) for reply in replies)
        assert (type(error), error.reason) == (EngineError, "bad-request")
        assert ray.is_initialized()
        with pytest.raises(InputError, match="missing is not a local folder"):
            make(on_ray(engine="vllm", model="missing"))
    finally:
        ray.shutdown()
