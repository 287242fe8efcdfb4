"""Folders of batch runs that version 0.4 began: nothing that was paid for is asked again."""

import gzip
import json
import shutil
import time

import pytest

from tests.llm.journal.test_earlier_versions import DATA, QUERIES, config
from tests.servers.batch import BatchServer, HostedBatch, answer_file
from tests.servers.chat import Answer
from tests.world import SHOP, drafted, good
from toolbank.llm.engines.batch import hosted
from toolbank.llm.journal import Journal
from toolbank.requests.write.write_step import generate


@pytest.fixture(autouse=True)
def prompts_of_those_runs(monkeypatch):
    monkeypatch.chdir(DATA)
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)


def said(call):
    """What the model of those runs said, by its prompt."""
    if call.asks_polish:
        return good(call)
    number = sum(map(ord, call.prompt)) % 9973
    if number % 5 == 0:
        return Answer.text("I had rather write a poem.")
    tools = call.offered[:2]
    first, second = (name.removeprefix("shop.").replace("_", " ") for name in tools)
    words = f"clerk {number} in house {number * 7 % 9973} at noon of day {number % 365}"
    text = f"For {words} please {first}, then for {number} also {second}."
    return Answer.json(drafted(tools, text))


def run(folder, **settings):
    asked = config(engine="batch", retries=1, **settings)
    with Journal(folder / "journal.sqlite") as journal:
        return generate(SHOP, asked, domain="shop", seed=0, journal=journal)


def queries(made):
    return [(q.id, q.query, list(q.provenance.requests)) for q in made.value.queries]


def custom_ids(*paths):
    return [
        json.loads(line)["custom_id"]
        for path in paths
        for line in path.read_text().splitlines()
    ]


def test_files_that_were_answered_by_hand_are_taken_up(tmp_path):
    """Of round 2, three of four polishes were answered, and none of its writes."""
    shutil.copytree(DATA / "by_hand_0.4", tmp_path, dirs_exist_ok=True)
    packed = (tmp_path / "journal.sqlite.gz").read_bytes()
    (tmp_path / "journal.sqlite").write_bytes(gzip.decompress(packed))
    batch = tmp_path / "batch"
    asked = custom_ids(*batch.glob("round-00[12]-*.jsonl"))
    unanswered = custom_ids(batch / "round-002-polish-001.jsonl")[-1]
    made = run(tmp_path)
    assert "round-002-write-001.jsonl" in made.waiting
    (third,) = batch.glob("round-003-*-001.jsonl")
    assert custom_ids(third) == [unanswered]
    for number in range(2, 9):
        for path in batch.glob(f"round-00{number}-*-001.jsonl"):
            if path.name != "round-002-polish-001.jsonl":
                output = batch / f"output of {path.name}"
                output.write_text(answer_file(path.read_text(), said))
        made = run(tmp_path)
        if not made.waiting:
            break
    assert queries(made) == QUERIES
    later = custom_ids(*batch.glob("round-00[3-9]-*-001.jsonl"))
    assert [key for key in later if key in asked] == [unanswered]


def test_a_batch_that_was_submitted_is_fetched_and_not_made_again(tmp_path):
    shutil.copytree(DATA / "submitted_0.4", tmp_path, dirs_exist_ok=True)
    name = "round-001-write-001.jsonl"
    entry = json.loads((tmp_path / "batch" / "submitted.json").read_text())[name]
    with BatchServer(said) as server:
        content = (tmp_path / "batch" / name).read_bytes()
        server.files["file-0"] = f"{entry['mark']}-{name}", content, "batch"
        batch = HostedBatch("batch_0", "file-0", {}, int(time.time()))
        server.batches["batch_0"] = batch
        made = run(tmp_path, base_url=server.url, queries=3, options={"submit": True})
    assert queries(made) == QUERIES[:3]
    assert [path for path in server.uploads if name in path] == [server.uploads[0]]
