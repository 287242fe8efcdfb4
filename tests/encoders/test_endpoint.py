"""An embedding model behind an endpoint: calls, faults, what is kept, and whole runs by it."""

import base64
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.commands.in_process import do, toolbank
from tests.run.test_dataset import write_recipe
from tests.search.serve.servers import serving
from tests.servers.chat import Answer, ChatServer, closed_url, count_words
from toolbank.encoders import load_encoder
from toolbank.encoders.endpoint import EndpointConfig, EndpointEncoder
from toolbank.llm.journal import Journal
from toolbank.system import deadline
from toolbank.system.errors import ToolbankError

KEY = "sk-embed-77c1e0"
TEXTS = [f"text {number} of {'many ' * number}" for number in range(9)]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path / "cache" / "toolbank" / "embeddings.sqlite"


def config(url, folder, **settings):
    settings = {"model": "small", "replies": folder / "calls.sqlite", **settings}
    return EndpointConfig(type="endpoint", base_url=url, **settings)


def sent(server):
    """How often each text was sent."""
    return Counter(chain.from_iterable(call.body["input"] for call in server.calls))


def expected(texts):
    vectors = np.array([count_words(text) for text in texts], np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def as_base64(rows):
    for row in rows:
        content = np.array(row["embedding"], "<f4").tobytes()
        row["embedding"] = base64.b64encode(content).decode()
    return rows


def refuse_base64(call):
    if "encoding_format" in call.body:
        return Answer.error(422, "encoding_format: extra inputs are not permitted")
    return Answer.embeddings(call)


def take_two(call):
    if len(call.body["input"]) > 2:
        return Answer.error(413, "batch size > maximum allowed batch size 2")
    return Answer.embeddings(call)


@pytest.mark.parametrize(
    "script",
    [
        Answer.embeddings,
        lambda call: Answer.embeddings(call, lambda rows: rows[::-1]),
        lambda call: Answer.embeddings(call, as_base64),
        lambda call: Answer.embeddings(
            call, lambda rows: [{"embedding": row["embedding"]} for row in rows]
        ),
        refuse_base64,
        take_two,
    ],
)
def test_vectors_come_in_the_order_of_the_texts_however_they_are_sent(script, tmp_path):
    with ChatServer(script) as server:
        settings = config(server.url, tmp_path, batch_size=4, query_prefix="find: ")
        found = load_encoder(settings).encode_queries([*TEXTS, TEXTS[0]])
    wanted = expected([f"find: {text}" for text in [*TEXTS, TEXTS[0]]])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert found.dtype == np.float32
    assert max(sent(server).values()) <= 2 + 2 * (script is take_two)


def test_a_call_has_the_settings_and_its_texts_are_bounded(tmp_path):
    long = ["word " * 4_000, "other " * 4_000, "third " * 4_000]
    with ChatServer(Answer.embeddings) as server:
        extra = {"parameters": {"truncate": True}, "url_query": {"api-version": "1"}}
        settings = config(server.url, tmp_path, dimensions=32, batch_size=5, **extra)
        load_encoder(settings).encode_documents([*TEXTS, *long])
    assert all(call.path == "/v1/embeddings?api-version=1" for call in server.calls)
    for call in server.calls:
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert (call.body["model"], call.body["dimensions"]) == ("small", 32)
        assert call.body["truncate"] is True
    sizes = sorted(len(call.body["input"]) for call in server.calls)
    assert sizes == [1, 1, 5, 5]


def alter(rows, value):
    rows[-1]["embedding"] = value
    return rows


# What fails before an answer is read is tested in tests/llm.
FAULTS = {
    "http-429": lambda _: Answer.error(429, Retry_After="0.05"),
    "not-json-response": lambda _: Answer(body=b'{"object": "list"}'),
    "short": lambda call: Answer.embeddings(call, lambda rows: rows[1:]),
    "twice": lambda call: Answer.embeddings(call, lambda rows: [*rows, rows[0]]),
    "doubled": lambda call: Answer.embeddings(call, lambda rows: [*rows[1:], rows[1]]),
    "NaN": lambda call: Answer.embeddings(
        call, lambda r: alter(r, [float("nan")] * 32)
    ),
    "null": lambda call: Answer.embeddings(call, lambda r: alter(r, [None] * 32)),
    "narrow": lambda call: Answer.embeddings(call, lambda r: alter(r, [1.0])),
    "zeros": lambda call: Answer.embeddings(call, lambda r: alter(r, [0.0] * 32)),
    "nothing": lambda call: Answer.embeddings(call, lambda r: alter(r, [])),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_call_is_tried_again_and_counted(name, tmp_path):
    tried = Counter()

    def script(call):
        tried[call.body["input"][0]] += 1
        first = tried[TEXTS[0]] == 1 and call.body["input"][0] == TEXTS[0]
        return FAULTS[name](call) if first else Answer.embeddings(call)

    with ChatServer(script) as server:
        settings = config(server.url, tmp_path, batch_size=3)
        found = load_encoder(settings).encode_queries(TEXTS)
    np.testing.assert_allclose(found, expected(TEXTS), atol=1e-6)
    with Journal(tmp_path / "calls.sqlite", read_only=True) as journal:
        [used] = journal.usage()
        failed = {failure.reason for failure in journal.failures()}
    assert used.replies == 3
    assert failed == {name if "-" in name else "wrong-vectors"}


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (lambda _: Answer.error(401, f"bad key {KEY}"), "key is refused"),
        (FAULTS["short"], "8 vectors for 9 texts"),
        (None, "Is the server running"),
    ],
)
def test_what_stays_wrong_is_told_without_the_key(script, told, tmp_path):
    with ChatServer(script) as server:
        url = server.url if script else closed_url()
        encoder = load_encoder(config(url, tmp_path, retries=0))
        with pytest.raises(ToolbankError, match=told) as error:
            encoder.encode_queries(TEXTS)
    assert "77c1e0" not in str(error.value)


def test_no_text_is_paid_for_twice_by_any_run_or_model_of_this_name(tmp_path, cache):
    with ChatServer(Answer.embeddings) as server:
        for number in range(3):
            folder = tmp_path / f"run-{number}"
            folder.mkdir()
            encoder = load_encoder(config(server.url, folder, batch_size=2))
            encoder.encode_queries([*TEXTS[:5], f"new {number}"])
        assert set(sent(server).values()) == {1}
        assert len(sent(server)) == 8
        other = config(server.url, tmp_path, model="large")
        load_encoder(other).encode_queries(TEXTS[:2])
        assert sent(server)[TEXTS[0]] == 2
        # A damaged cache costs money, and no run.
        cache.write_bytes(b"broken" * 1000)
        fresh = load_encoder(config(server.url, tmp_path, batch_size=3))
        np.testing.assert_allclose(
            fresh.encode_queries(TEXTS[:4]), expected(TEXTS[:4]), atol=1e-6
        )


def test_a_budget_ends_it_and_a_larger_one_goes_on(tmp_path):
    price = {"price": {"input": 1.0, "output": 0}, "batch_size": 2}
    with ChatServer(Answer.embeddings) as server:
        poor = config(server.url, tmp_path, **price, budget={"calls": 2})
        with pytest.raises(ToolbankError, match="budget of 2 calls"):
            load_encoder(poor).encode_queries(TEXTS)
        assert len(server.calls) == 2
        rich = config(server.url, tmp_path, **price, budget={"calls": 6})
        found = load_encoder(rich).encode_queries(TEXTS)
        assert max(sent(server).values()) == 1
    np.testing.assert_allclose(found, expected(TEXTS), atol=1e-6)
    with Journal(tmp_path / "calls.sqlite", read_only=True) as journal:
        [used] = journal.usage()
    assert used.prompt_tokens == sum(len(text.split()) for text in TEXTS)
    assert not used.completion_tokens


@pytest.mark.parametrize(
    ("settings", "told"),
    [({}, "fit again"), ({"dimensions": 16}, "of 32 numbers, not of 16")],
)
def test_vectors_of_another_length_than_the_saved_ones_are_refused(
    settings, told, tmp_path
):
    with ChatServer(Answer.embeddings) as server:
        encoder = load_encoder(config(server.url, tmp_path, **settings)).of_width(16)
        with pytest.raises(ToolbankError, match=told):
            encoder.encode_queries(TEXTS[:1])


def cut(width):
    def change(rows):
        return [{**row, "embedding": row["embedding"][:width]} for row in rows]

    return lambda call: Answer.embeddings(call, change)


def test_vectors_of_another_model_of_the_name_are_not_kept_and_a_fit_can_begin_anew(
    tmp_path, cache
):
    now = {"script": Answer.embeddings}
    with ChatServer(lambda call: now["script"](call)) as server:
        kept = config(server.url, tmp_path, batch_size=4)
        EndpointEncoder(kept).encode_documents(TEXTS[:4])
        now["script"] = cut(20)
        with pytest.raises(ToolbankError) as error:
            EndpointEncoder(kept).of_width(32).encode_queries(TEXTS[4:6])
        for part in ("20", "32", str(cache), "another name", "toolbank train RUN"):
            assert part in str(error.value)
        assert len(server.calls) == 2
        # Nothing of the wrong model is left when the right one is back.
        now["script"] = Answer.embeddings
        encoder = EndpointEncoder(kept).of_width(32)
        found = encoder.encode_queries(TEXTS[:6])
        np.testing.assert_allclose(found, expected(TEXTS[:6]), atol=1e-6)
        # The journal of the run has the same calls, with the vectors from before.
        now["script"] = cut(20)
        cache.unlink()
        again = EndpointEncoder(kept)
        assert again.encode_documents(TEXTS[:4]).shape == (4, 20)
        assert again.encode_queries(TEXTS[4:]).shape == (5, 20)
        # A pack on another machine, with an empty cache.
        cache.unlink()
        now["script"] = cut(20)
        with pytest.raises(ToolbankError, match="another name"):
            EndpointEncoder(kept).of_width(32).encode_queries(TEXTS[:1])
        now["script"] = Answer.embeddings
        packed = EndpointEncoder(kept).of_width(32)
        assert packed.encode_queries(TEXTS[:1]).shape == (1, 32)
        # Another name, or other settings, may have another length.
        for settings in ({"model": "large"}, {"parameters": {"truncate": True}}):
            now["script"] = cut(11)
            other = EndpointEncoder(config(server.url, tmp_path, **settings))
            assert other.encode_queries(TEXTS[:2]).shape == (2, 11)


def test_a_size_that_was_refused_is_not_sent_again(tmp_path):
    def take_three(call):
        sizes.append(len(call.body["input"]))
        if sizes[-1] > 3:
            return Answer.error(422, "batch size > maximum allowed batch size 3")
        return Answer.embeddings(call)

    sizes, texts = [], [f"word {number}" for number in range(50)]
    with ChatServer(take_three) as server:
        settings = config(server.url, tmp_path, batch_size=10, concurrency=1)
        found = load_encoder(settings).encode_queries(texts)
    np.testing.assert_allclose(found, expected(texts), atol=1e-6)
    assert sum(size > 3 for size in sizes) == 2
    assert max(sent(server).values()) <= 3


@pytest.mark.parametrize("status", [400, 413])
def test_a_text_that_is_too_long_is_shown_and_the_others_are_paid_for_once(
    status, tmp_path
):
    def script(call):
        if any(len(text) > 500 for text in call.body["input"]):
            return Answer.error(status, "input must have less than 512 tokens")
        answered.update(call.body["input"])
        return Answer.embeddings(call)

    answered = Counter()
    long = "A tool that is described\nat length " + "and so on " * 90
    texts = [*TEXTS[:6], long, *TEXTS[6:]]
    with ChatServer(script) as server:
        settings = config(server.url, tmp_path, batch_size=8, concurrency=1)
        for _ in range(2):
            with pytest.raises(ToolbankError, match="described") as error:
                EndpointEncoder(settings).encode_documents(texts)
            assert "truncate: true" in str(error.value)
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 800
            # One long text does not make the calls of others smaller.
            sizes = [len(call.body["input"]) for call in server.calls]
            assert answered == Counter(TEXTS)
        EndpointEncoder(settings).encode_documents(TEXTS)
    assert answered == Counter(TEXTS)
    assert sizes[-1] == 1


def test_a_refusal_of_every_text_is_not_tried_with_each(tmp_path):
    refusal = Answer.error(400, "this model has no pooling")
    with (
        ChatServer(lambda _: refusal) as server,
        pytest.raises(ToolbankError, match="no pooling"),
    ):
        load_encoder(config(server.url, tmp_path)).encode_queries(TEXTS)
    assert len(server.calls) <= 4


def test_calls_need_no_run_folder(tmp_path):
    with ChatServer(Answer.embeddings) as server:
        gone = config(server.url, tmp_path / "no" / "run", batch_size=3)
        found = load_encoder(gone).encode_queries(TEXTS)
        np.testing.assert_allclose(found, expected(TEXTS), atol=1e-6)
        poor = config(server.url, tmp_path / "no" / "run", budget={"calls": 1})
        for texts in (["one"], ["two", "word " * 9_000]):
            with pytest.raises(ToolbankError) as error:
                load_encoder(poor).encode_queries([*texts, "other " * 9_000])
            assert "budget of 1 call" in str(error.value)
            # The journal is gone, so nobody should look for it.
            assert "calls.sqlite" not in str(error.value)
    assert not (tmp_path / "no").exists()


def test_a_call_without_an_answer_ends_with_its_search_and_delays_no_other(tmp_path):
    let_go = threading.Event()

    def script(call):
        is_silent = call.body["input"] == ["for good"] or call.number == 0
        if is_silent:
            let_go.wait(20)
        return Answer.embeddings(call)

    def search(text, seconds):
        began = time.monotonic()
        with deadline.ending_within(seconds):
            try:
                return encoder.encode_queries([text]), time.monotonic() - began
            except ToolbankError as error:
                return str(error), time.monotonic() - began

    with ChatServer(script) as server, ThreadPoolExecutor() as threads:
        encoder = load_encoder(config(server.url, tmp_path / "no" / "run"))
        once = threads.submit(search, "only once", 4)
        while not server.calls:
            time.sleep(0.01)
        for_good = threads.submit(search, "for good", 2)
        found, seconds = search("other words", 4)
        assert seconds < 1.5
        np.testing.assert_allclose(found, expected(["other words"]), atol=1e-6)
        found, seconds = once.result()
        assert seconds < 4
        np.testing.assert_allclose(found, expected(["only once"]), atol=1e-6)
        told, seconds = for_good.result()
        assert seconds < 3
        assert server.url in told
        # The time of this search was over before it began.
        calls = len(server.calls)
        assert server.url in search("too late", 0)[0]
        assert len(server.calls) == calls
        let_go.set()


EMBED = """
import sys
from pathlib import Path
from tests.encoders.test_endpoint import TEXTS, config
from toolbank.encoders import load_encoder
load_encoder(config(sys.argv[1], Path(sys.argv[2]), batch_size=2)).encode_queries(TEXTS)
"""


def test_processes_of_one_training_pay_once(tmp_path):
    with ChatServer(Answer.embeddings) as server:
        command = [sys.executable, "-c", EMBED, server.url, str(tmp_path)]
        started = [
            subprocess.Popen(
                command,
                env={**os.environ, "LOCAL_RANK": n, "RANK": n, "WORLD_SIZE": "2"},
            )
            for n in "01"
        ]
        assert [one.wait() for one in started] == [0, 0]
        assert set(sent(server).values()) == {1}


def write(folder, url, **encoder):
    """A recipe whose tools are found by an endpoint, by BM25, and by both."""
    path = Path(write_recipe(folder))
    remote = {"type": "endpoint", "base_url": url, "model": "small", **encoder}
    methods = [
        {"type": "tool2vec", "encoder": remote},
        {"type": "bm25"},
        {"type": "fusion", "first_stage": "tool2vec"},
    ]
    content = yaml.safe_load(path.read_text())
    content |= {"retrievers": methods, "baselines": False}
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.slow
def test_a_run_a_pack_and_their_searches_call_it_for_new_texts_alone(tmp_path):
    price = {"input": 1_000, "output": 0}
    with ChatServer(Answer.embeddings) as server:
        recipe = write(tmp_path, server.url, price=price, batch_size=7)
        assert server.url in do(tmp_path, "plan", recipe, "--out", "r").stdout
        assert not server.calls
        do(tmp_path, "run", recipe, "--out", "r")
        assert max(sent(server).values()) == 1
        told = do(tmp_path, "plan", recipe, "--out", "r", "--set", "seed=1").stdout
        assert "about 0 texts" in told
        before = len(server.calls)
        packed = do(tmp_path, "pack", "r", "--out", "p", "--retriever", "fusion")
        assert server.url in packed.stderr
        assert len(server.calls) == before
        for place in ("r", "p"):
            for _ in range(2):
                asked = ("search", place, f"please tool_mean it in {place}")
                assert (
                    "tool_mean" in do(tmp_path, *asked, "--retriever", "fusion").stdout
                )
        assert [len(call.body["input"]) for call in server.calls[before:]] == [1, 1]
    searches = yaml.safe_load((tmp_path / "r/searches.json").read_text())
    assert searches["tool2vec"]["calls"]["embed"]["dollars"] > 0
    for place in ("r", "p"):
        asked = ("search", place, "something new", "--retriever", "fusion")
        down = toolbank(*asked, cwd=tmp_path)
        assert down.returncode == 1
        assert server.url in down.stderr
        assert not down.stdout
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_a_budget_names_its_own_retriever_and_no_folder_that_is_gone(tmp_path):
    with ChatServer(Answer.embeddings) as server:
        spent = {"budget": {"calls": 2}, "batch_size": 4, "concurrency": 1}
        recipe = write(tmp_path, server.url, **spent)
        told = toolbank("run", recipe, "--out", "r", cwd=tmp_path).stderr
        [option] = re.findall(r"--set (\S+=\d+)", told)
        larger = f"{option.partition('=')[0]}=90"
        assert larger.startswith("retrievers.tool2vec.encoder.")
        do(tmp_path, "run", recipe, "--out", "r", "--set", larger)


def test_a_plan_counts_texts_of_several_retrievers_once(tmp_path):
    path = write(tmp_path, closed_url(), model="large")
    content = yaml.safe_load(path.read_text())
    other = {**content["retrievers"][0], "type": "descriptions"}
    content["retrievers"] = [content["retrievers"][0], other]
    path.write_text(yaml.safe_dump(content))
    told = do(tmp_path, "plan", path, "--out", "r").stdout
    assert "tool2vec, descriptions: about 45 texts to embed" in told


def test_a_server_tells_its_clients_why_it_cannot_search(tmp_path):
    down = threading.Event()

    def script(call):
        is_down = down.is_set()
        return Answer.error(500, "no GPU") if is_down else Answer.embeddings(call)

    with ChatServer(script) as server:
        recipe = write(tmp_path, server.url, retries=0)
        do(tmp_path, "run", recipe, "--out", "r", "--until", "evaluate")
        do(tmp_path, "pack", "r", "--out", "p", "--retriever", "fusion")
        with serving(tmp_path / "p") as served:
            up = served.ask("/search", {"queries": ["please tool_mean it"]})
            assert up.json["results"][0]["hits"]
            down.set()
            failed = served.ask("/search", {"queries": ["please tool_sum that"]})
    assert failed.status == 502
    assert "no GPU" in failed.json["error"]["message"]


@pytest.mark.slow
def test_a_killed_run_sends_only_what_it_lacks(tmp_path):
    gate = threading.Event()

    def script(call):
        if call.number >= 3 and not gate.is_set():
            gate.wait(20)
            return Answer.error(503)
        return Answer.embeddings(call)

    command = [str(Path(sys.executable).with_name("toolbank")), "run"]
    with ChatServer(script) as server:
        recipe = write(tmp_path, server.url, batch_size=4, concurrency=1)
        arguments = [*command, str(recipe), "--out", "r", "--until", "retrievers"]
        with subprocess.Popen(arguments, cwd=tmp_path) as child:
            while len(server.calls) < 4:
                time.sleep(0.05)
            child.kill()
        gate.set()
        done = Counter(chain.from_iterable(c.body["input"] for c in server.calls[:3]))
        subprocess.run(arguments, cwd=tmp_path, check=True)
    assert len(done) == 12
    assert all(sent(server)[text] == 1 for text in done)


@pytest.mark.parametrize(
    ("retriever", "encoder", "told"),
    [
        ({"type": "tool2vec", "training": {}}, {}, "sentence encoder"),
        ({"type": "mlc"}, {}, "type"),
        ({"type": "descriptions"}, {"temperature": 0.5}, "temperature"),
        ({"type": "descriptions"}, {"executor": "ray"}, "executor"),
        (
            {"type": "descriptions"},
            {"parameters": {"input": ["x"]}},
            "it has the texts",
        ),
        ({"type": "descriptions"}, {"api_key_env": KEY}, "NAME of an environment"),
    ],
)
def test_what_an_endpoint_cannot_do_is_refused_before_a_run(
    retriever, encoder, told, tmp_path
):
    path = write(tmp_path, closed_url())
    content = yaml.safe_load(path.read_text())
    remote = content["retrievers"][0]["encoder"] | encoder
    content["retrievers"] = [{**retriever, "encoder": remote}]
    path.write_text(yaml.safe_dump(content))
    for name in ("plan", "run"):
        refused = do(tmp_path, name, path, "--out", "r", code=2)
        assert told in refused.stderr
        assert KEY not in refused.stderr
