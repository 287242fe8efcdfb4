"""Task decomposition: a search for every subtask, by rules and by a language model."""

import json
import os
import signal
import time

import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from tests.servers.chat import Answer, ChatServer
from tests.tiny_models import tiny_encoder
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import load_retriever
from toolbank.retrievers.llm_settings import DecomposeConfig, DecompositionConfig
from toolbank.retrievers.settings import Bm25Config, Tool2VecConfig
from toolbank.run.recipe import load_recipe, place_replies
from toolbank.run.stage import files_read
from toolbank.system.errors import InputError, ToolbankError

SUMMARIES = {
    "flight.cancel": "cancel a flight",
    "flight.delay": "a flight that is late",
    "flight.seat": "the seats of a flight",
    "hotel.book": "reserve a hotel room",
    "mail.send": "send a mail",
}
BOTH = "Cancel my flight and book a hotel room"


@pytest.fixture(scope="module")
def bank():
    late = "Is my flight late? Send a mail"
    uses = [
        (BOTH, ["flight.cancel", "hotel.book"], "train"),
        (late, ["flight.delay", "mail.send"], "train"),
    ]
    return make_bank(SUMMARIES, uses)


@pytest.fixture(scope="module")
def bm25(bank):
    return fit_one(Bm25Config(), bank)


def fit(bank, first, **settings):
    return fit_one(DecompositionConfig(first_stage=first.name, **settings), bank, first)


def test_hits_are_the_subtasks_own_interleaved(bank, bm25):
    retriever = fit(bank, bm25)
    texts = [BOTH, "Send a mail", "Send a mail; cancel my flight; book a hotel room"]
    indices, scores = retriever.search(texts, 5)
    for row, text in zip(indices, texts, strict=True):
        lists = bm25.search(retriever.split([text])[0], 5)[0]
        walked = [int(hits[rank]) for rank in range(5) for hits in lists]
        found = [tool for tool in dict.fromkeys(walked) if tool >= 0]
        assert row.tolist() == [*found, *[-1] * (5 - len(found))]
    assert (indices == -1).any()
    expected = np.where(indices >= 0, 1 / np.arange(1, 6), -np.inf)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_train_queries_are_searched_by_a_first_stage_without_them(bank, tmp_path):
    encoder = SentenceConfig(model=str(tiny_encoder(tmp_path / "tiny")))
    first = fit_one(Tool2VecConfig(encoder=encoder, centre=False), bank)
    hits, _ = fit(bank, first).search_train(bank, 5)
    for row, query in enumerate(bank.queries):
        others = tuple(other for other in bank.queries if other is not query)
        alone = fit_one(first.config, Bank(bank.tools, others))
        expected = fit(bank, alone).search([query.query], 5)[0][0]
        np.testing.assert_array_equal(hits[row], expected)


def by_model(server, folder, **settings):
    return DecomposeConfig(
        base_url=server.url,
        model="m",
        replies=folder / "subtasks.sqlite",
        retries=0,
        **settings,
    )


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def asked_for(call):
    return call.prompt.partition("<request>\n")[2].partition("\n</request>")[0]


def test_a_model_splits_and_no_text_is_asked_for_twice(bank, bm25, tmp_path):
    def script(call):
        if asked_for(call) == BOTH:
            return Answer.json({"subtasks": ["cancel a flight", " reserve a room "]})
        return Answer.json({"subtasks": ["send a mail"]}, before="Here: ")

    with ChatServer(script) as server:
        decompose = by_model(server, tmp_path)
        retriever = fit(bank, bm25, decompose=decompose)
        texts = [BOTH, "Write to Bob", BOTH]
        parts = retriever.split(texts)
        assert parts[0] == parts[2] == ["cancel a flight", "reserve a room"]
        assert parts[1] == ["send a mail"]
        assert len(server.calls) == 2
        (hits,), _ = retriever.search([BOTH], 2)
        found = [retriever.tools[index] for index in hits]
        assert found == ["flight.cancel", "hotel.book"]
        retriever.save(tmp_path / "saved")
        loaded = load_retriever(tmp_path / "saved")
        assert loaded.split(texts) == parts
        assert len(server.calls) == 2
        schema = server.calls[0].body["response_format"]["json_schema"]
        assert schema["schema"]["required"] == ["subtasks"]


def test_replies_that_came_are_kept_when_another_call_fails(bank, bm25, tmp_path):
    def script(call):
        if asked_for(call) == "broken" and call.number < 10:
            return Answer.error(400, "no such thing")
        return Answer.json({"subtasks": ["send a mail"]})

    with ChatServer(script) as server:
        retriever = fit(bank, bm25, decompose=by_model(server, tmp_path, concurrency=1))
        with pytest.raises(ToolbankError, match=r"1 of 3 .*subtasks\.sqlite"):
            retriever.search(["one", "broken", "two"], 2)
        served = len(server.calls)
        retriever.split(["one", "two"])
        assert len(server.calls) == served


@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_is_told_in_whole_sentences(bank, bm25, tmp_path, presses):
    def script(_):
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return Answer.json({"subtasks": ["send a mail"]})

    with ChatServer(script) as server:
        retriever = fit(bank, bm25, decompose=by_model(server, tmp_path, concurrency=1))
        with pytest.raises(ToolbankError) as told:
            retriever.split(["one", "two"])
    assert "stopped by an interrupt. The replies that came are in" in str(told.value)


@pytest.mark.parametrize(
    "reply",
    ["I can't.", json.dumps({"subtasks": []}), json.dumps({"subtasks": [1, 2]})],
)
def test_a_request_whose_reply_is_no_list_stays_whole_and_is_told(
    bank, bm25, tmp_path, capsys, reply
):
    with ChatServer(lambda _: Answer.text(reply)) as server:
        retriever = fit(bank, bm25, decompose=by_model(server, tmp_path))
        assert retriever.split([BOTH]) == [[BOTH]]
    assert "Did not split 1 of 1" in " ".join(capsys.readouterr().err.split())


def test_an_engine_that_cannot_split_is_refused_at_the_fit(bank, bm25, tmp_path):
    config = DecomposeConfig(replies=tmp_path / "r", model="m", engine="nowhere")
    with pytest.raises(InputError, match="nowhere"):
        fit(bank, bm25, decompose=config)


RECIPE = """
name: mine
sources: [{type: python, package: json}]
retrievers:
  - {type: descriptions}
  - {type: decomposition, name: by-rules}
  - {type: decomposition, decompose: {model: m, replies: subtasks.sqlite}}
  - {type: refiner, first_stage: decomposition, vectors: descriptions}
"""


def test_the_journal_is_in_the_run_folder(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(RECIPE)
    run = tmp_path / "runs/mine"
    placed = place_replies(load_recipe(str(recipe)).recipe, recipe, run).retrievers
    (config,) = (c for c in placed if c.label == "decomposition")
    assert config.decompose.replies == run / "subtasks.sqlite"


def test_what_a_models_prompt_splits_follows_from_the_prompt(tmp_path, monkeypatch):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(RECIPE)
    monkeypatch.chdir(tmp_path)

    def prompts():
        read = load_recipe(str(recipe)).recipe
        return {c.label: files_read(c, read) for c in read.retrievers}

    ours = prompts()
    assert ours["decomposition"] == ours["refiner"]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "decompose.j2").write_text("Split: {{ request }}")
    own = prompts()
    assert own["decomposition"] == own["refiner"] != ours["decomposition"]
    for files in (ours, own):
        assert files["descriptions"] == files["by-rules"] == []
