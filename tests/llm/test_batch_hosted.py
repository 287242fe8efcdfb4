"""The batch engine with a hosted Batch API: a real local server of files and batches."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tqdm import tqdm

from tests.llm.batch_rounds import command, jsonl, request
from tests.servers.batch import BatchServer
from tests.servers.chat import Answer
from toolbank.llm.chat import EngineError
from toolbank.llm.engines.batch import hosted
from toolbank.llm.engines.batch.endpoint import Batch

KEY = "sk-test-77aa01bc"
FIRST = "round-001-write-001.jsonl"
SECOND = "round-002-write-001.jsonl"
ENDS = (".jsonl", ".output.jsonl")
FOUR = [request(number) for number in range(4)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(hosted, "_LONGEST_WAIT", 0.05)


def said(call):
    return Answer.text(call.prompt)


TEXTS = {number: f"Request {number} of é€𝄞." for number in range(4)}


def submit(folder, server, requests=FOUR, options=(), **settings):
    settings = {"base_url": server.url, "max_outage": 0, **settings}
    options = {"submit": True, **dict(options)}
    return command(folder, requests, options=options, **settings)


def fails(folder, server, **settings):
    with pytest.raises(EngineError) as caught:
        submit(folder, server, **settings)
    assert KEY not in str(caught.value)
    return caught.value


def test_files_are_uploaded_polled_and_fetched_in_one_command(tmp_path):
    with BatchServer(said, on_create=lambda one: setattr(one, "polls", 4)) as server:
        told = submit(tmp_path, server, options={"max_requests": 3})
        asked = len(server.requests)
        assert submit(tmp_path, server).texts == TEXTS
        assert len(server.requests) == asked
    assert (told.texts, told.message) == (TEXTS, "")
    assert len(server.uploads) == len(server.batches) == 2
    files = [f"round-001-write-{n:03d}{end}" for n in (1, 2) for end in ENDS]
    assert jsonl(tmp_path) == files
    assert server.keys == {f"Bearer {KEY}"}
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_requests_with_errors_or_without_reply_go_into_the_next_round(tmp_path, capsys):
    seen = []

    def script(call):
        first_time = call.prompt not in seen
        seen.append(call.prompt)
        if first_time and "Request 1" in call.prompt:
            return Answer.error(500)
        if first_time and "Request 2" in call.prompt:
            return None
        return said(call)

    with BatchServer(script) as server:
        assert submit(tmp_path, server).texts == TEXTS
    assert len(server.batches) == 2
    assert "batch-expired 1, http-500 1" in capsys.readouterr().err
    assert len((tmp_path / SECOND).read_text().splitlines()) == 2


@pytest.mark.parametrize("end", ["expired", "cancelled"])
@pytest.mark.parametrize("done", [0, 2])
def test_what_a_batch_did_before_it_ended_early_is_kept(tmp_path, capsys, end, done):
    def script(call):
        return said(call) if len(server.batches) > 1 or call.number < done else None

    def on_create(batch):
        batch.end = end if batch.id == "batch_0" else "completed"

    def keep_lines(lines, keep=BatchServer._keep_lines):
        # A batch that did nothing has no files.
        return keep(server, lines) if done or len(server.batches) > 1 else None

    with BatchServer(script, on_create=on_create) as server:
        server._keep_lines = keep_lines
        assert submit(tmp_path, server).texts == TEXTS
    assert f"batch_0 is {end}" in capsys.readouterr().err
    assert len((tmp_path / SECOND).read_text().splitlines()) == 4 - done


def test_a_failed_batch_is_told_with_its_reason_and_submitted_by_the_next_run(tmp_path):
    def fail(batch):
        batch.end = "failed"
        batch.errors = [{"message": f"no such model {KEY}", "line": 1}]

    with BatchServer(said, on_create=fail) as server:
        error = fails(tmp_path, server)
        assert error.fatal
        assert "batch_0 failed (line 1: no such model ***)" in str(error)
        assert str(tmp_path / FIRST) in str(error)
        server.on_create = lambda batch: None
        assert submit(tmp_path, server).texts == TEXTS
    assert len(server.uploads) == 1
    assert len(server.batches) == 2


@contextmanager
def queue_for(count):
    """A server with an account whose queue takes so many batches at once."""

    def on_create(batch):
        states = [other.status for other in server.batches.values()]
        if states.count("validating") + states.count("in_progress") > count:
            batch.end = "failed"
            batch.errors = [{"code": "token_limit_exceeded", "message": "full"}]

    with BatchServer(said, on_create=on_create) as server:
        yield server


def test_files_that_the_queue_has_no_room_for_are_held_until_it_has(tmp_path):
    with queue_for(1) as server:
        assert submit(tmp_path, server, options={"max_requests": 1}).texts == TEXTS
    assert len(server.uploads) == 4


def refusing(status):
    return BatchServer(said, before=lambda *_: status)


@pytest.mark.parametrize(
    ("make", "reason", "remedy"),
    [
        (lambda: refusing(401), "refused-key", "OPENAI_API_KEY"),
        (lambda: refusing(404), "not-found", "base_url"),
        (lambda: refusing("reset"), "connection", "Is the server running"),
        (lambda: queue_for(0), "batch-failed", "options.max_requests="),
    ],
)
def test_an_endpoint_that_refuses_ends_the_run_at_once(tmp_path, make, reason, remedy):
    with make() as server:
        error = fails(tmp_path, server)
    assert (error.reason, error.fatal) == (reason, reason != "connection")
    assert remedy in str(error)


def without_lists(number, method, path):
    place = path.partition("?")[0]
    return 404 if method == "GET" and place.endswith(("/files", "/batches")) else None


def test_an_endpoint_that_is_down_for_a_while_is_waited_for(tmp_path, capsys):
    down = range(1, 4)

    def fault(number, method, path):
        return 503 if number in down else None

    with BatchServer(said, before=fault) as server:
        assert submit(tmp_path, server, max_outage=60).texts == TEXTS
    assert "HTTP 503" in capsys.readouterr().err


def test_a_submitted_batch_is_named_and_a_lost_one_told_with_what_to_do(tmp_path):
    def refuse_polls(number, method, path):
        return 401 if "/batches/" in path else None

    with BatchServer(said, before=refuse_polls) as server:
        fails(tmp_path, server)
        message = command(tmp_path, FOUR, base_url=server.url).message
        assert f"{FIRST}  submitted as batch_0" in message
        server.before = lambda *_: None
        server.batches.clear()
        assert "submitted.json" in str(fails(tmp_path, server))


@pytest.mark.parametrize(
    "happens", ["before", pytest.param("after", marks=pytest.mark.slow)]
)
def test_a_connection_that_breaks_at_any_step_makes_nothing_twice(tmp_path, happens):
    """The next command goes on; what the endpoint did unheard is found there."""
    for number in range(12):
        folder = tmp_path / str(number)

        def fault(n, method, path, number=number):
            return "reset" if n in (number, number + 1, number + 2) else None

        with BatchServer(said, **{happens: fault}) as server:
            for _ in range(4):
                try:
                    told = submit(folder, server, options={"max_requests": 2})
                except EngineError as error:
                    assert error.retryable
                else:
                    break
            assert told.texts == TEXTS
            assert len(server.batches) == 2, number


def break_off(number, method, path):
    return "reset" if (method, path) == ("POST", "/v1/batches") else None


def test_without_lists_a_batch_that_was_perhaps_made_is_left_to_the_user(tmp_path):
    with BatchServer(said, before=without_lists, after=break_off) as server:
        error = fails(tmp_path, server, max_outage=60)
        server.after = lambda *_: None
        again = fails(tmp_path, server, max_outage=60)
        assert (error.reason, error.fatal) == ("unknown-outcome", True)
        assert str(again) == str(error)
        assert f'put its id at "batch" of {FIRST}' in str(error)
        noted = json.loads((tmp_path / "submitted.json").read_text())
        (noted[FIRST]["batch"],) = server.batches
        (tmp_path / "submitted.json").write_text(json.dumps(noted))
        assert submit(tmp_path, server).texts == TEXTS
        assert len(server.uploads) == len(server.batches) == 1


def test_without_lists_a_batch_that_was_not_made_can_be_made_then(tmp_path):
    with BatchServer(said) as server:
        server.before = lambda *call: break_off(*call) or without_lists(*call)
        fails(tmp_path, server, max_outage=60)
        server.before = without_lists
        text = (tmp_path / "submitted.json").read_text()
        (tmp_path / "submitted.json").write_text(text.replace('"create"', '""'))
        assert submit(tmp_path, server).texts == TEXTS


class Odd(BatchServer):
    """A server one of whose answers is changed."""

    def __init__(self, method, route, change):
        super().__init__(said)
        self.odd = method, route, change

    def _answer(self, method, path, headers, body):
        status, content = super()._answer(method, path, headers, body)
        odd_method, route, change = self.odd
        route_asked = path.partition("?")[0].removeprefix("/v1")
        if method == odd_method and re.fullmatch(route, route_asked):
            content = change(json.loads(content))
        return status, content


def edited(**changes):
    return lambda answer: json.dumps({**answer, **changes}).encode()


def undated(answer):
    rows = [{"id": "x", "filename": "f", "object": "file"}]
    return json.dumps({**answer, "data": rows}).encode()


@pytest.mark.parametrize(
    ("method", "route", "change"),
    [
        ("GET", "/batches/.+", lambda _: b"null"),
        ("GET", "/batches/.+", lambda _: b"<html>"),
        ("GET", "/batches/.+", edited(status=None)),
        ("GET", "/batches/.+", edited(status="completed", output_file_id=7)),
        ("GET", "/batches/.+", edited(status="failed", errors={"data": "none"})),
        ("POST", "/batches", edited(id=None)),
        ("POST", "/files", lambda _: b"{}"),
        ("GET", "/batches", undated),
        ("GET", "/batches", edited(data="text")),
    ],
)
def test_an_answer_of_no_batch_api_ends_the_run(tmp_path, method, route, change):
    with Odd(method, route, change) as server:
        error = fails(tmp_path, server, max_outage=60)
    assert (error.reason, error.fatal) == ("not-batch-api", True)
    assert "not that of a Batch API" in str(error)
    noted = json.loads((tmp_path / "submitted.json").read_text())
    assert all(isinstance(value, str) for value in noted[FIRST].values())


def test_a_state_can_not_steer_the_terminal():
    written = io.StringIO()
    batch = Batch(id="b", status="\x1b[31mresting")
    with tqdm(file=written) as bar:
        hosted._show(bar, [batch])
    assert "resting" in written.getvalue()
    assert "\x1b[31m" not in written.getvalue()


SCRIPT = """
import sys
from pathlib import Path
from toolbank.llm.engines.batch import hosted
from tests.llm.batch_rounds import command, request
hosted._FIRST_WAIT = 0.01
command(
    Path(sys.argv[1]), [request(n) for n in range(4)], base_url=sys.argv[2],
    options={"submit": True, "max_requests": 2},
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("happens", ["before", "after"])
def test_a_kill_at_any_step_makes_nothing_twice(tmp_path, happens):
    """kill -9 as the endpoint gets a request, and as it has carried it out."""
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        process: list[subprocess.Popen] = []

        def kill(number, method, path, process=process, steps=steps):
            if number == steps and process:
                os.kill(process[0].pid, signal.SIGKILL)
                process[0].wait()
                return "reset"
            return None

        with BatchServer(said, **{happens: kill}) as server:
            arguments = [sys.executable, "-c", SCRIPT, str(folder), server.url]
            process.append(subprocess.Popen(arguments, stderr=subprocess.DEVNULL))
            code = process[0].wait(timeout=60)
            process.clear()
            told = submit(folder, server, options={"max_requests": 2})
            assert told.texts == TEXTS
            assert len(server.batches) == 2, steps
        if code == 0:
            break
        assert code == -signal.SIGKILL
        steps += 1
    assert steps >= 10


def test_what_was_noted_of_a_file_that_was_written_anew_does_not_count(tmp_path):
    with BatchServer(said) as server:
        submit(tmp_path, server)
        for path in tmp_path.iterdir():
            if path.name != "submitted.json":
                path.unlink()
        noted = json.loads((tmp_path / "submitted.json").read_text())
        assert noted[FIRST]["status"] == "completed"
        other = [request(number) for number in range(4, 6)]
        assert set(submit(tmp_path, server, requests=other).texts) == {4, 5}
        assert set(command(tmp_path, other).texts) == {4, 5}
