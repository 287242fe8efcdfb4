"""A whole project of version 0.7.0 goes on: nothing is bought again, and nothing of it is lost.

The archive holds what that version wrote in /tmp/project: the run `mine`, whose requests, asks,
comparisons, grades and search replies a server on loopback wrote; its copy `graded`, which was
verified once more from people.jsonl; a packed finder and a publication of `mine`.
"""

import hashlib
import json
import re
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import toolbank as package
from tests.commands import in_process
from toolbank.publish.exports import EXPORTS
from toolbank.search.finder import Finder

ARCHIVE = Path(__file__).parent / "data" / "project_0.7.tar.xz"
MADE_IN = "/tmp/project"
REQUESTS = 27
BY_PEOPLE = 5


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def project(tmp_path, server, monkeypatch):
    """The project, as if version 0.7.0 had made it here with this server."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "project"
    [url] = set(re.findall(r"http://[\d.:]+", (folder / "mine.yaml").read_text()))
    texts = [
        path
        for path in folder.rglob("*")
        if path.suffix in {".yaml", ".json", ".html", ".md"}
    ]
    changes = {url: server.url.removesuffix("/v1"), MADE_IN: str(folder)}
    while changes:
        # Files name the hashes of others.
        hashes = {}
        for path in texts:
            before = path.read_bytes()
            after = before
            for old, new in changes.items():
                after = after.replace(old.encode(), new.encode())
            if after != before:
                path.write_bytes(after)
                hashes[sha256(before)] = sha256(after)
        changes = hashes
    command = f"start python3 -S -I {folder / 'server.py'}"
    monkeypatch.setenv("TOOLBANK_GRANTS", command)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def do(cwd, *arguments, code=0):
    done = in_process.do(cwd, *arguments, code=code)
    return done.stdout + done.stderr


def hash_files(folder):
    """The user's own files, which nothing writes to."""
    return {
        path: sha256(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and folder / "runs" not in path.parents
    }


def graders(run):
    rows = pl.read_parquet(run / "verify" / "grades.parquet")
    one_each = rows.select("kind", "source", "query").unique()
    return Counter(map(tuple, one_each.select("kind", "source").rows()))


def comparisons(run):
    judged = json.loads((run / "judge.json").read_text())
    return {
        (one["against"], one["judge"]) for one in (judged, *judged.get("others", []))
    }


def test_the_archive_names_nothing_but_the_project():
    with tarfile.open(ARCHIVE) as archive:
        content = b"".join(
            archive.extractfile(one).read() for one in archive if one.isfile()
        )
    places = re.findall(rb"/(?:home|root|work|tmp|Users|opt|usr)/[\w.-]+", content)
    assert set(places) == {MADE_IN.encode()}
    assert set(re.findall(rb"(?:sk|hf)[-_]\w{12,}", content)) == set()


def test_a_run_goes_on_from_any_folder_and_buys_nothing(project, elsewhere, server):
    before = hash_files(project)
    for place in (elsewhere, project / "runs" / "mine"):
        for given in (project / "mine.yaml", project / "runs/mine"):
            lines = do(place, "plan", given).splitlines()
            planned = {line.split()[0]: line for line in lines if line.split()}
            for stage in ("sources", "generate", "asks", "verify", "retrievers/llm"):
                assert planned[stage].split()[1:] == ["done"]
            assert "prompts/" not in planned["judge"]
    said = do(elsewhere, "run", project / "runs/mine", "--until", "retrievers")
    assert re.search("retrievers/llm +done already", said)
    assert ("other.jsonl", "m") in comparisons(project / "runs/mine")
    said = do(project, "run", "mine.yaml", "--until", "retrievers")
    assert "12 from the journal" in said
    assert comparisons(project / "runs/mine") == {("draft", "m"), ("other.jsonl", "m")}
    do(elsewhere, "evaluate", project / "runs/mine", "--on", project / "natural.jsonl")
    assert graders(project / "runs/mine") == {("model", "m"): REQUESTS}
    assert not server.calls
    assert hash_files(project) == before


def test_what_is_read_of_a_run(project, elsewhere, server):
    before, run = hash_files(project), project / "runs" / "mine"
    assert f"{REQUESTS}" in do(elsewhere, "show", run)
    assert "Read with care." in do(elsewhere, "show", run, "shop-000003")
    assert "total_orders" in do(elsewhere, "show", run, "total_orders")
    assert "total_orders" in do(elsewhere, "search", run, "total the orders")
    assert package.load(run).search("total the orders", k=2)
    bank = package.load_bank(run)
    assert len(bank.queries) == REQUESTS
    do(elsewhere, "compare", run, project / "natural.jsonl", "--no-encoder")
    for form in EXPORTS.own.keys() - {"datasets"}:
        do(elsewhere, "export", run, "--format", form, "--out", form)
    labels = [
        json.loads(line)
        for line in (elsewhere / "jsonl" / "labels.jsonl").read_text().splitlines()
    ]
    assert len({label["query"] for label in labels}) == REQUESTS
    assert not server.calls
    assert hash_files(project) == before


def test_a_search_uses_replies_next_to_the_recipe(project, elsewhere, server):
    run = project / "runs" / "mine"
    given = ("evaluate", run, "--on", project / "natural.jsonl")
    do(elsewhere, *given)
    do(elsewhere, "run", run, "--until", "retrievers")
    do(elsewhere, *given)
    assert not server.calls
    do(elsewhere, "search", run, "total the orders", "--retriever", "llm")
    assert len(server.calls) == 1


def test_the_grades_of_a_file_stay_those_of_people(project, elsewhere, server):
    run = project / "runs" / "graded"
    do(elsewhere, "run", run, "--until", "verify")
    expected = {("model", "m"): REQUESTS, ("person", "people"): BY_PEOPLE}
    assert graders(run) == expected
    labels = pl.read_parquet(run / "bank" / "labels.parquet")
    kinds = labels.group_by("kind").agg(pl.col("query").n_unique())
    assert dict(kinds.rows()) == {"person": BY_PEOPLE, "model": REQUESTS - BY_PEOPLE}
    assert not server.calls


def test_an_old_pack_and_an_old_publication(project, elsewhere, server):
    said = do(elsewhere, "search", project / "pack", "total the orders")
    assert "total_orders" in said
    assert "toolbank pack RUN" in said
    assert Finder.open(project / "pack").search("total the orders")
    (elsewhere / "again.yaml").write_text(
        f"name: again\ndataset: {{type: published, path: {project / 'public'}}}\n"
        "baselines: false\nretrievers: [bm25]\n"
    )
    do(elsewhere, "run", "again.yaml", "--until", "retrievers")
    bank = package.load_bank(elsewhere / "runs/again")
    assert len(bank.queries) == REQUESTS
    assert bank.labels["query"].n_unique() == REQUESTS
    assert not server.calls


@pytest.mark.slow
def test_all_commands_keep_grades_and_buy_what_is_new(project, elsewhere, server):
    before, run = hash_files(project), project / "runs" / "mine"
    do(elsewhere, "run", run)
    do(project, "run", "mine.yaml")
    do(elsewhere, "report", run)
    assert hash_files(project) == before
    do(elsewhere, "pack", run, "--out", project / "pack")
    assert "total_orders" in do(project, "search", "pack", "total the orders")
    do(elsewhere, "export", run, "--out", "datasets")
    do(elsewhere, "publish", run, "--to", project / "public")
    published = pl.read_parquet(project / "public/data/labels-*.parquet")
    assert published["query"].n_unique() == REQUESTS
    before = hash_files(project)
    grades = {("model", "m"): REQUESTS, ("person", "people"): BY_PEOPLE}
    by_people = ("verify.engine=recorded", "verify.replies=people.jsonl")
    do(project, "verify", "runs/mine", *in_process.sets(*by_people))
    assert graders(run) == grades
    shutil.copy(project / "other.jsonl", elsewhere / "copy.jsonl")
    do(elsewhere, "judge", run, "--against", elsewhere / "copy.jsonl")
    against = {name for name, _ in comparisons(run)}
    assert against == {"draft", "other.jsonl", "copy.jsonl"}
    do(elsewhere, "run", run)
    assert "Nothing is left to do." in do(elsewhere, "refresh", run)
    assert not server.calls
    assert hash_files(project) == before
    tools = json.loads((project / "tools.json").read_text())
    new = {"name": "paint_hats", "description": "Paint a hat.", "parameters": {}}
    (project / "tools.json").write_text(json.dumps([*tools, new]))
    assert "1 added" in do(elsewhere, "refresh", run)
    do(elsewhere, "run", run)
    assert [call.asked_for for call in server.calls] == ["paint_hats"]
    assert "paint_hats" in do(elsewhere, "search", run, "paint my hat")
    (project / "tools.json").write_text(json.dumps([*tools[1:], new]))
    assert "1 removed" in do(elsewhere, "refresh", run)
    said = do(elsewhere, "publish", run, "--to", elsewhere / "public", code=2)
    assert f"toolbank run {run}" in said
    do(elsewhere, "run", run)
    do(elsewhere, "publish", run, "--to", elsewhere / "public")
    assert graders(run) == grades
    assert len(server.calls) == 1
