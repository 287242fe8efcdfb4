import json
import os
import signal
import time
from contextlib import ExitStack

import numpy as np
import pytest

from tests.retrievers.llm.reranker import asked
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
from toolbank.system.errors import ToolbankError

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


@pytest.fixture
def serve(bank, bm25, tmp_path, monkeypatch):
    """Start a model that answers by a script; gives its server, and a retriever that asks it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with ExitStack() as servers:

        def serve(script):
            server = servers.enter_context(ChatServer(script))
            replies = tmp_path / "subtasks.sqlite"
            settings = {"model": "m", "retries": 0, "concurrency": 1}
            decompose = DecomposeConfig(
                base_url=server.url, replies=replies, **settings
            )
            return server, fit(bank, bm25, decompose=decompose)

        yield serve


SEND = Answer.json({"subtasks": ["send a mail"]})


def test_a_model_splits_and_no_text_is_asked_for_twice(serve, tmp_path):
    def script(call):
        if asked(call) == BOTH:
            return Answer.json({"subtasks": ["cancel a flight", " reserve a room "]})
        return Answer.json({"subtasks": ["send a mail"]}, before="Here: ")

    server, retriever = serve(script)
    texts = [BOTH, "Write to Bob", BOTH]
    parts = retriever.split(texts)
    assert parts[0] == parts[2] == ["cancel a flight", "reserve a room"]
    assert parts[1] == ["send a mail"]
    (hits,), _ = retriever.search([BOTH], 2)
    found = [retriever.tools[index] for index in hits]
    assert found == ["flight.cancel", "hotel.book"]
    retriever.save(tmp_path / "saved")
    assert load_retriever(tmp_path / "saved").split(texts) == parts
    assert len(server.calls) == 2
    schema = server.calls[0].body["response_format"]["json_schema"]
    assert schema["schema"]["required"] == ["subtasks"]


def test_replies_that_came_are_kept_when_another_call_fails(serve):
    def script(call):
        is_broken = asked(call) == "broken" and call.number < 10
        return Answer.error(400, "no such thing") if is_broken else SEND

    server, retriever = serve(script)
    with pytest.raises(ToolbankError, match=r"1 of 3 .*subtasks\.sqlite"):
        retriever.search(["one", "broken", "two"], 2)
    served = len(server.calls)
    retriever.split(["one", "two"])
    assert len(server.calls) == served


@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_says_where_replies_are(serve, presses):
    def script(_):
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return SEND

    _, retriever = serve(script)
    with pytest.raises(ToolbankError, match=r"interrupt.*subtasks\.sqlite"):
        retriever.split(["one", "two"])


@pytest.mark.parametrize(
    "reply",
    ["I can't.", json.dumps({"subtasks": []}), json.dumps({"subtasks": [1, 2]})],
)
def test_a_request_whose_reply_is_no_list_stays_whole_and_is_told(serve, capsys, reply):
    _, retriever = serve(lambda _: Answer.text(reply))
    assert retriever.split([BOTH]) == [[BOTH]]
    assert "1 of 1" in capsys.readouterr().err


RECIPE = """
name: mine
sources: [{type: python, package: json}]
retrievers:
  - {type: descriptions}
  - {type: decomposition, name: by-rules}
  - {type: decomposition, decompose: {model: m, replies: subtasks.sqlite}}
  - {type: refiner, first_stage: decomposition, vectors: descriptions}
"""


def test_a_split_has_its_journal_and_follows_its_prompt(tmp_path, monkeypatch):
    file, run = tmp_path / "mine.yaml", tmp_path / "runs/mine"
    file.write_text(RECIPE)
    recipe = load_recipe(str(file)).recipe
    placed = place_replies(recipe, file, run).retrievers
    (config,) = (c for c in placed if c.label == "decomposition")
    assert config.decompose.replies == run / "subtasks.sqlite"
    monkeypatch.chdir(tmp_path)

    def prompts():
        return {c.label: files_read(c, recipe) for c in recipe.retrievers}

    ours = prompts()
    assert ours["decomposition"] == ours["refiner"]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "decompose.j2").write_text("Split: {{ request }}")
    own = prompts()
    assert own["decomposition"] == own["refiner"] != ours["decomposition"]
    for files in (ours, own):
        assert files["descriptions"] == files["by-rules"] == []
