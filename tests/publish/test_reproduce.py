"""A published folder with replies gives a stranger the same bank, byte for byte."""

import json
import shutil

import polars as pl
import pytest
import yaml

from tests.commands.in_process import do, toolbank
from tests.run.test_verify import grader
from tests.servers.batch import answer_file
from tests.servers.chat import Answer
from tests.world import files_under, write_lines, write_recipe
from toolbank.bank.bank import PROFILE
from toolbank.config.assets import shipped
from toolbank.publish.replies import try_reproduction

MODEL = {"engine": "batch", "model": "m", "base_url": "https://internal.example/v1"}


def script(call):
    """Some drafts are refused by the endpoint for good, and some cannot be read."""
    number = sum(map(ord, call.prompt))
    if "# How to grade" in call.prompt or call.asks_polish or call.asked_for:
        return grader(call)
    if number % 7 == 0:
        return Answer(400, b'{"error": {"message": "refused"}}')
    return Answer.text("No.") if number % 5 == 0 else grader(call)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a finished run that a model wrote, asked and verified in batches."""
    folder = tmp_path_factory.mktemp("project")
    path = write_recipe(folder, queries=20)
    recipe = yaml.safe_load((folder / "mine.yaml").read_text())
    recipe["generate"] = {**recipe["generate"], **MODEL, "retries": 0}
    recipe |= {"asks": {"per_tool": 2}, "verify": {**MODEL, "candidates": 3}}
    recipe |= {"judge": {"pairs": 3}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(recipe))
    shutil.copytree(shipped("prompts"), folder / "prompts")
    prompt = folder / "prompts" / "write.j2"
    prompt.write_text(prompt.read_text() + "\nWrite as on the telephone.\n")
    for _ in range(20):
        done = toolbank("run", path, cwd=folder)
        if done.returncode == 0:
            return folder
        for file in (folder / "runs/mine/batch").glob("round-???-*-???.jsonl"):
            output = file.with_name(f"batch_{file.stem}_output.jsonl")
            if not output.exists():
                output.write_text(answer_file(file.read_text(), script))
    raise AssertionError(done.stderr)


@pytest.fixture(scope="module")
def published(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    to = ("--to", folder / "bank", "--with-replies", "--author", "Ann_1 {& Author}")
    assert "repl" in do(made, "publish", "runs/mine", *to).stdout
    return folder / "bank"


def bank_of(run):
    """The bytes of a bank's tables, without the classes, which follow from them."""
    files = {path.name: path.read_bytes() for path in (run / "bank").glob("*.parquet")}
    return {name: files[name] for name in files if name != PROFILE}


def test_a_stranger_makes_the_same_bytes_again(made, published, tmp_path):
    expected = bank_of(made / "runs/mine")
    assert {"queries.parquet", "asks.parquet", "labels.parquet"} <= expected.keys()
    attempts = pl.read_parquet(made / "runs/mine/bank/attempts.parquet")
    assert {"accepted", "rejected", "failed"} <= set(attempts["outcome"])
    # Without the project, its run, and the sources of its tools.
    shutil.move(made, tmp_path / "gone")
    try:
        shutil.copytree(published, tmp_path / "copy")
        done = do(tmp_path, "reproduce", "copy", "--out", "again")
    finally:
        shutil.move(tmp_path / "gone", made)
    assert bank_of(tmp_path / "again") == expected
    for name in (*expected, "bank.json"):
        assert f"the same bytes: {name}" in done.stdout


def test_the_replies_are_rows_that_datasets_loads(published, tmp_path):
    import datasets

    rows = datasets.load_dataset(str(published), "replies", cache_dir=str(tmp_path))
    replies = rows["replies"]
    assert {"write", "polish", "ask", "verify"} <= set(replies["step"])
    prompts = ["".join(m["content"] for m in one) for one in replies["messages"]]
    assert any("as on the telephone" in prompt for prompt in prompts)
    secret = b"internal.example"
    assert not [n for n, content in files_under(published).items() if secret in content]


def test_the_card_says_what_was_tried(made, published, tmp_path):
    card = (published / "README.md").read_text()
    assert "same bytes (asks.parquet, attempts.parquet, bank.json, labels" in card
    assert r"author = {Ann\_1 \& Author}" in card
    do(made, "publish", "runs/mine", "--to", tmp_path / "plain")
    assert not [*(tmp_path / "plain").rglob("replies-*")]
    for kind in ("*.j2", "examples/*.jsonl", "schemas/*.json"):
        assert [*(tmp_path / "plain/prompts").glob(kind)]
    assert "cannot be reproduced" in (tmp_path / "plain/README.md").read_text()


def test_another_reply_is_found_out(published, tmp_path):
    shutil.copytree(published, tmp_path / "copy")
    [shard] = (tmp_path / "copy/data").glob("replies-*")
    rows = pl.read_parquet(shard)
    is_polish = pl.col("step") == "polish"
    other = pl.when(is_polish).then(pl.col("text").str.replace("today", "now"))
    rows.with_columns(other.otherwise(pl.col("text")).alias("text")).write_parquet(
        shard
    )
    done = do(tmp_path, "reproduce", "copy", "--out", "again", code=1)
    assert "queries.parquet" in done.stderr


@pytest.mark.parametrize(("folder", "out"), [("plain", "new"), ("bank", "taken")])
def test_what_cannot_be_made_again_is_refused(published, tmp_path, folder, out):
    shutil.copytree(published, tmp_path / "bank")
    (tmp_path / "plain").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/notes.txt").write_text("mine")
    done = do(tmp_path, "reproduce", folder, "--out", out, code=2)
    assert ("--with-replies" if folder == "plain" else "--out") in done.stderr


@pytest.fixture(scope="module")
def with_sets(tmp_path_factory):
    """The folder of a finished run whose own candidate sets are gone."""
    folder = tmp_path_factory.mktemp("sets")
    rules = {"engine": "rules", "queries": 6}
    path = write_recipe(folder, **rules, candidate_sets="sets.jsonl")
    names = [one["name"] for one in json.loads((folder / "tools.json").read_text())]
    write_lines(folder / "sets.jsonl", [names[n : n + 4] for n in range(12)])
    assert do(folder, "run", path, "--until", "generate").returncode == 0
    (folder / "sets.jsonl").unlink()
    return folder


def test_own_candidate_sets_are_kept_and_published(with_sets, tmp_path):
    again = do(with_sets, "run", "mine.yaml", "--until", "generate")
    assert "All stages were done already" in again.stdout
    do(with_sets, "publish", "runs/mine", "--to", tmp_path / "bank", "--with-replies")
    do(tmp_path, "reproduce", "bank", "--out", "again")
    assert bank_of(tmp_path / "again") == bank_of(with_sets / "runs/mine")
    card = (tmp_path / "bank/README.md").read_text()
    assert "candidate\\_sets sets.jsonl" in card and "offered 6" not in card


def test_a_failed_reproduction_names_the_file_in_the_publication(published, tmp_path):
    shutil.copytree(published, tmp_path / "copy")
    (tmp_path / "copy/recipe.yaml").unlink()
    problem = try_reproduction(tmp_path / "copy").problem
    assert problem.startswith("recipe.yaml: ") and not problem.endswith(".")


def test_the_datasheet_has_the_size_and_weights_that_were_used(tmp_path):
    weights = {"statistics.mean": 2}
    write_recipe(tmp_path, engine="rules", queries=6, offered=90, weights=weights)
    do(tmp_path, "run", "mine.yaml", "--until", "generate")
    do(tmp_path, "publish", "runs/mine", "--to", tmp_path / "bank")
    tools = json.loads((tmp_path / "tools.json").read_text())
    card = (tmp_path / "bank/README.md").read_text()
    assert f"offered {len(tools)}," in card and "statistics.mean': 2" in card
