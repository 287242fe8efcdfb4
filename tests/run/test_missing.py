"""Requests that no tool fits, from the recipe to the published bank."""

import json
import re

import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import (
    good,
    sentence,
    write_dataset,
    write_dataset_recipe,
    write_recipe,
)
from toolbank.bank.bank import Bank
from toolbank.bank.frames import load_bank
from toolbank.commands.evaluate import evaluate_run
from toolbank.commands.preview import preview_attempts
from toolbank.commands.show import show_one, show_outcomes
from toolbank.evaluation.refusals import read_refusals
from toolbank.publish.exports import export_bank, export_folder
from toolbank.publish.publish import PublicationParts, publish_to_folder
from toolbank.run.folder import RunFolder
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

SERVED = "Weigh what a tool fits"
WRITTEN = set()


def model(call):
    """Writes three requests a group, of which a tool fits the first."""
    if "# The group" in call.prompt:
        first = sentence(call.prompt).replace("Weigh", SERVED, 1)
        texts = [first, sentence(call.prompt + "2"), sentence(call.prompt + "3")]
        WRITTEN.update(texts[1:])
        rows = [{"request": text, "lacks": "weigh it"} for text in texts]
        return Answer.json({"requests": rows})
    if "# How to grade" not in call.prompt:
        return good(call)
    tools = call.prompt.split("# The tools")[1].split("# How to grade")[0]
    request = re.search(r"<request>\n(.*)\n</request>", call.prompt)[1]
    reply = {"needed": [], "alternatives": [], "aside": "no tool does it"}
    if request not in WRITTEN:
        name = re.search(r"^- (\S+?)(?::|$)", tools, re.MULTILINE)[1]
        reply |= {"needed": [{"tool": name, "why": "it"}], "aside": ""}
    return Answer.json(reply)


@pytest.fixture(scope="module")
def server():
    with ChatServer(model) as server:
        yield server


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, server):
    """Loads a recipe whose queries the rules write; a model writes and grades the others."""
    path = write_recipe(tmp_path_factory.mktemp("recipe"), engine="rules", queries=20)
    engine = f"engine: openai, base_url: '{server.url}', model: m"
    settings = (
        f"missing={{{engine}, per_group: 3}}",
        f"verify={{{engine}, candidates: 3, second_call: 0}}",
        "split.test=0.3",
    )
    return lambda *more: load_recipe(path, [*settings, *more])


@pytest.fixture(scope="module")
def out(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    run_recipe(recipe(), out)
    return out


def test_grades_decide_what_becomes_of_each_request(out):
    bank, found = Bank.load(out / "bank"), read_json(out / "verify.json")["missing"]
    written = Bank.load(out / "bank", settled=False).missing
    assert (
        found["queries"]
        == len(written)
        == 3 * read_json(out / "bank/missing.json")["counts"]["groups"]
    )
    assert found["nothing_fits"] == len(bank.missing) and not found["not_graded"]
    ids = {query.id for query in written}
    fitted = [query for query in bank.queries if query.id in ids]
    assert len(fitted) == found["a_tool_fits"] >= 1
    assert all(SERVED in query.query and query.tools for query in fitted)
    assert not any(query.tools or SERVED in query.query for query in bank.missing)


def test_nothing_is_trained_on_them_and_the_queries_stay(recipe, out, tmp_path):
    other = tmp_path / "plain"
    run_recipe(recipe("missing=null"), other, until="verify")
    names = "tools.parquet", "queries.parquet", "attempts.parquet"
    for name in names:
        assert (out / "bank" / name).read_bytes() == (
            other / "bank" / name
        ).read_bytes()
    assert not (other / "bank" / "missing.parquet").exists()
    bank = Bank.load(out / "bank")
    assert all(query.tools for query in bank.train_queries)


def test_without_verification_they_are_kept_and_said_to_be_ungraded(recipe, tmp_path):
    result = run_recipe(recipe("verify=null"), tmp_path / "run", until="report")
    assert "missing" in result.did
    bank = Bank.load(tmp_path / "run/bank")
    assert bank.missing and not bank.sure_missing
    assert "not graded" in show_one(tmp_path / "run", bank.missing[0].id)
    assert "are not graded" in (tmp_path / "run/report.html").read_text()


def test_every_command_knows_them(recipe, out, tmp_path):
    bank = Bank.load(out / "bank")
    assert "requests that no tool fits" in show_outcomes(out)
    shown = show_one(out, bank.missing[0].id)
    assert "no tool fits it, by its grades" in shown and "# The group" in shown
    plan = " ".join(describe_plan(recipe(), tmp_path / "planned").split())
    assert "Queries that no tool fits: at most 3 near each of" in plan
    texts = preview_attempts(
        recipe().recipe, tmp_path / "preview", 1, prompts_only=True
    )
    assert any("# The group" in text for text in texts)
    assert bank.missing[0].query in (out / "report.html").read_text()


def test_frames_and_exports_have_them(out, tmp_path):
    bank, frames = Bank.load(out / "bank"), load_bank(out)
    assert list(frames.missing["id"]) == [query.id for query in bank.missing]
    assert list(frames.queries["id"]) == [query.id for query in bank.queries]
    export_folder(out / "bank", "jsonl", tmp_path / "streamed")
    export_bank(bank, "jsonl", tmp_path / "whole")
    streamed, whole = (
        (tmp_path / name / "queries.jsonl").read_text()
        for name in ("streamed", "whole")
    )
    assert streamed == whole and all(query.id in whole for query in bank.missing)


def test_they_are_published_and_read_back(out, tmp_path):
    publish_to_folder(PublicationParts(RunFolder(out)), tmp_path / "published")
    card = (tmp_path / "published/README.md").read_text()
    bank = Bank.load(out / "bank")
    assert f"| missing | missing | {len(bank.missing)} |" in card
    assert "Requests that no tool fits" in card
    published = "{type: published, path: " + str(tmp_path / "published") + "}"
    path = write_dataset_recipe(tmp_path, "again")
    again = load_recipe(path, [f"dataset={published}"])
    run_recipe(again, tmp_path / "again", until="evaluate")
    read = Bank.load(tmp_path / "again/bank")
    assert {(q.id, q.query, q.split) for q in read.missing} == {
        (q.id, q.query, q.split) for q in bank.missing
    }
    qrels = (tmp_path / "published/qrels/test.tsv").read_text()
    assert not any(query.id in qrels for query in bank.missing)


@pytest.mark.parametrize("engine", ["rules", "recorded"])
def test_an_engine_that_cannot_write_them_is_refused(recipe, tmp_path, engine):
    with pytest.raises(InputError, match="missing"):
        run_recipe(recipe(f"missing={{engine: {engine}}}"), tmp_path / "run")


def test_own_requests_without_tools_are_rows_and_are_evaluated(tmp_path, capsys):
    served = [
        {"query": f"merge the {word} lists of {n} people", "tools": ["lists.merge"]}
        for n, word in enumerate(("red", "blue", "long", "short", "old", "new"))
    ]
    unserved = [{"query": f"print a {n} euro stamp", "tools": []} for n in range(6)]
    write_dataset(
        tmp_path / "data", ["lists.merge", "lists.sort"], [*served, *unserved]
    )
    recipe = write_dataset_recipe(tmp_path, "own", split={"test": 0.34})
    out = tmp_path / "run"
    run_recipe(load_recipe(recipe), out)
    bank = Bank.load(out / "bank")
    assert len(bank.missing) == len(bank.sure_missing) == 6
    assert [one.split for one in bank.missing].count("test") == 2
    [found] = read_refusals(out / "refusals.json")
    assert (found.n_missing, found.n_served) == (2, 2) and found.auroc == 1.0
    file = tmp_path / "mine.jsonl"
    file.write_text(
        "".join(json.dumps(row) + "\n" for row in [*served[:2], *unserved[:3]])
    )
    said = evaluate_run(out, [file], tmp_path / "figures.json").text
    assert "3 requests that no tool fits, and 2 that a tool fits" in said
    file.write_text("".join(json.dumps(row) + "\n" for row in unserved))
    assert "6 requests that no tool fits" in evaluate_run(out, [file], None).text
    metrics = {row["metric"] for row in read_json(tmp_path / "figures.json")}
    assert "auroc" in metrics
