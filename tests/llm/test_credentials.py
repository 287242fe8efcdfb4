"""What is sent so that an endpoint answers, and that nobody reads it but that endpoint."""

import asyncio
import dataclasses
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import kind_of
from tests.llm.batch_rounds import command, request
from tests.llm.virtual import Endpoint
from tests.servers.batch import BatchServer
from tests.servers.chat import Answer, ChatServer
from tests.servers.named import name_host
from tests.servers.wire import Wire, WireServer
from tests.world import good, write_recipe
from toolbank.commands.preview import preview_attempts
from toolbank.llm.chat import ChatReply, EngineError
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.requests.write.config import GenerateConfig
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.secrets import hide

KEY, OTHER = "sk-test-5f1c9a2b77", "azure-test-0c4d1e88"
AZURE = {
    "api_key_env": None,
    "headers": {"api-key": "AZURE_KEY"},
    "url_query": {"api-version": "2024-10-21"},
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_KEY", OTHER)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: header-secret")


def ask_all(url, folder, attempts, kind=None, **settings):
    """The pool, and replies or errors by attempt, of one run of the command."""
    got = {}

    async def ask(pool, number):
        with pool.attempt() as calls:
            try:
                got[number] = await calls.ask(request(number, "polish"))
            except EngineError as error:
                got[number] = error

    async def talk():
        config = GenerateConfig(base_url=url, model="m", **{"retries": 2, **settings})
        with Journal(folder / "journal.sqlite") as journal:
            pool = Pool(kind or find_engine(config), config, journal, EngineContext())
            waiting = (ask(pool, number) for number in attempts)
            with suppress(ToolbankError):
                async with pool.working():
                    await pool.carry(lambda: next(waiting, None))
        return pool

    return asyncio.run(talk()), got


def check_sent(path, headers):
    """Check that what Azure wants was sent, and nothing else of the environment."""
    assert "api-version=2024-10-21" in path
    assert headers["api-key"] == OTHER
    assert "authorization" not in headers
    assert "secret" not in str(headers)


def test_an_endpoint_may_want_a_header_and_a_query_of_its_own(tmp_path):
    with ChatServer(good) as server:
        settings = {"base_url": server.url, "model": "m", **AZURE}
        path = write_recipe(tmp_path, queries=3, **settings)
        recipe = load_recipe(path)
        with pytest.raises(InputError, match=r"send AZURE_KEY=.* http://127\.0\.0\.1"):
            run_recipe(recipe, tmp_path / "out", until="generate")
        assert not server.calls
        name_host(server.url, "AZURE_KEY")
        run_recipe(recipe, tmp_path / "out", until="generate")
        for call in server.calls:
            assert call.path == "/v1/chat/completions?api-version=2024-10-21"
            check_sent(call.path, call.headers)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or OTHER.encode() not in file.read_bytes()


def said(call):
    return Answer.text(call.prompt)


def submit(folder, server, **settings):
    settings |= {"options": {"submit": True}, "base_url": server.url, "max_outage": 0}
    return command(folder, [request(0)], **settings)


def test_batches_are_sent_with_the_same_and_nothing_else(tmp_path):
    class Server(BatchServer):
        def take(self, method, path, headers, body):
            check_sent(path, headers)
            return super().take(method, path, headers, body)

    with Server(said) as server:
        name_host(server.url, "AZURE_KEY")
        assert submit(tmp_path, server, **AZURE).texts


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_carries_a_secret_elsewhere(status, tmp_path):
    with ChatServer(good) as other:
        to = Answer(status, headers={"Location": f"{other.url}/files"})

        class Elsewhere(ChatServer):
            def take(self, method, path, headers, body):
                return to

        with Elsewhere(said) as server:
            name_host(server.url, "AZURE_KEY")
            with pytest.raises(EngineError, match="no other address"):
                submit(tmp_path, server, headers={"api-key": "AZURE_KEY"})
            _, got = ask_all(server.url, tmp_path, [0])
            assert (got[0].reason, got[0].fatal) == (f"http-{status}", True)
            assert "base_url" in str(got[0])
        assert not other.calls


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8)


@given(SECRETS, st.text(max_size=20), st.data())
def test_a_secret_is_hidden_wherever_a_text_was_cut(secret, before, data):
    text = f"{before}{secret}"
    end = data.draw(st.integers(len(before) + 8, len(text)))
    assert len(hide(text[:end], [secret])) <= len(before) + len("***")


@pytest.mark.parametrize("at", range(3980, 4001, 4))
def test_a_key_that_an_excerpt_cuts_is_not_told(at, tmp_path):
    body = json.dumps({"error": {"message": "x" * at + KEY}})
    with WireServer(lambda call: Wire.http(body.encode())) as server:
        _, got = ask_all(server.url, tmp_path, [0], retries=0)
    assert isinstance(got[0], EngineError)
    name = "m" * 190 + KEY
    answer = json.loads(Answer.text("fine").body) | {"model": name}
    with WireServer(lambda call: Wire.http(json.dumps(answer).encode())) as server:
        _, got = ask_all(server.url, tmp_path, [1], retries=0)
    assert got[1].model == "m" * 190 + "***"


def ask_engine(outcome, folder, **settings):
    """The reply, or the error, of an engine of another package, as a run gets it."""
    engine = Endpoint(lambda *_: outcome, seconds=0)
    kind = dataclasses.replace(kind_of(engine), **settings)
    url = "https://api.openai.com/v1"
    _, got = ask_all(url, folder, [0], kind, engine="other", retries=0)
    return got[0]


@pytest.mark.parametrize(
    "what",
    [
        ValueError(f"401 for Bearer {KEY}"),
        EngineError(f"401 for Bearer {KEY}", reason="refused"),
        ChatReply(f"You sent {KEY}.", f"m of {KEY}"),
    ],
)
def test_what_an_engine_of_another_package_tells_has_no_key_in_it(what, tmp_path):
    got = ask_engine(what, tmp_path)
    assert "***" in f"{got} {getattr(got, 'model', '')}"
    assert KEY not in repr(got)
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


def test_of_an_engine_that_sends_nothing_nothing_is_hidden(tmp_path):
    reply = ChatReply(f"It holds {KEY}.", "m")
    got = ask_engine(reply, tmp_path, sends=lambda _: ())
    assert got.text == f"It holds {KEY}."


@pytest.mark.parametrize("way", ["at once", "batch"])
def test_a_word_sent_in_place_of_a_key_stays_in_replies(way, tmp_path, monkeypatch):
    values = {
        "OPENAI_API_KEY": "not-needed",
        "REFERER": "https://example.com/app2",
        "TITLE": "Tools of 2024, found",
        "ACCOUNT": "internationalization",
    }
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    text = f"A key is {', '.join(values.values())}."
    headers = {"HTTP-Referer": "REFERER", "X-Title": "TITLE", "X-Account": "ACCOUNT"}
    made = BatchServer if way == "batch" else ChatServer
    with made(lambda call: Answer.text(text)) as server:
        for variable in values:
            name_host(server.url, variable)
        if way == "batch":
            assert submit(tmp_path, server, headers=headers).texts == {0: text}
        else:
            _, got = ask_all(server.url, tmp_path, [0], headers=headers)
            assert got[0].text == text


def test_the_address_of_web_pages_is_told_at_once(tmp_path):
    page = Answer.html("\n<!DOCTYPE html><html><title>Portal</title></html>")
    with ChatServer(lambda call: page) as server:
        address = server.url.removesuffix("/v1")
        path = write_recipe(tmp_path, base_url=address, model="m", concurrency=1)
        with pytest.raises(ToolbankError, match="web page") as caught:
            list(preview_attempts(load_recipe(path).recipe, tmp_path / "out", 5))
        assert f"here {server.url}" in str(caught.value)
        assert len(server.calls) == 2
