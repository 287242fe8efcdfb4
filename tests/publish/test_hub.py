"""A publication goes to a hub, and comes back as a dataset; the hub is one of this machine."""

import os
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.commands.in_process import do
from tests.publish.runs import LABELS, make_run
from tests.servers.hub import TOKEN, Repository, serving
from tests.terminal_session import answer_on_terminal
from tests.world import files_under, write_dataset_recipe
from toolbank.bank.bank import Bank
from toolbank.datasets import published as loader

NOBODY = "http://127.0.0.1:9"
TO = ("--to", "hub:me/bank")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub; what the library keeps of it is in tmp_path/home."""
    loader._download.cache_clear()
    home = tmp_path / "home"
    with serving() as server:
        for name, value in {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
            "HF_HOME": str(home),
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_TOKEN_PATH": str(home / "token"),
            "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setenv("HF_HOME", str(home))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
    loader._download.cache_clear()


@pytest.fixture
def place(tmp_path):
    make_run(tmp_path / "run", labelled=True)
    return tmp_path


def publish(place, *more, code=0):
    return do(place, "publish", "run", *TO, *more, code=code)


def test_it_is_private_what_is_sent_is_shown_and_is_what_a_folder_has(hub, place):
    done = publish(place, "--yes", "--license", "cc-by-4.0")
    do(place, "publish", "run", "--to", "out", "--license", "cc-by-4.0")
    files = files_under(place / "out")
    repository = hub.repositories["me/bank"]
    assert repository.private
    assert repository.files == {".gitattributes": b"", **files}
    assert any(asked.startswith("PUT /upload/") for asked in hub.asked)
    for said in ("private", "cc-by-4.0", *files):
        assert said in done.stderr
    assert f"{hub.url}/datasets/me/bank" in done.stdout


def test_without_a_terminal_nothing_is_sent_unless_it_is_said(hub, place):
    said = publish(place, code=2).stderr
    assert "--yes" in said and "README.md" in said
    assert not hub.repositories
    do(place, "publish", "run", "--to", "out", "--public", code=2)
    assert not (place / "out").exists()


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("", 2)])
@pytest.mark.slow
def test_on_a_terminal_it_is_asked(hub, place, said, code):
    found, _ = answer_on_terminal(
        ["publish", "run", *TO],
        f"{said}\n",
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert found == code
    assert bool(hub.repositories) == (code == 0)


def write_back(place, **more):
    dataset = {"type": "hub", "name": "me/bank", **more}
    write_dataset_recipe(place, "back", dataset=dataset, split={"validation": 0})


def test_it_is_a_dataset_with_its_labels_and_without_the_token(hub, place, monkeypatch):
    done = publish(place, "--yes")
    write_back(place, revision=hub.repositories["me/bank"].sha)
    do(place, "plan", "back.yaml")
    write_back(place)
    back = do(place, "run", "back.yaml", "--until", "dataset")
    before = Bank.load(place / "run/bank")
    after = Bank.load(place / "runs/back/bank")
    assert after.tools == before.tools
    assert after.asks == before.asks
    assert after.labels == tuple(label for label in LABELS if label.query != "6")
    assert {query.id: query.query for query in after.queries} == {
        query.id: query.query for query in before.queries if query.split
    }
    assert not any("models" in asked for asked in hub.asked if "resolve" in asked)
    assert TOKEN in hub.seen_tokens
    files = {**files_under(place), **hub.repositories["me/bank"].files}
    said = done.stdout + done.stderr + back.stdout + back.stderr
    assert TOKEN.encode() not in b"".join([said.encode(), *files.values()])
    # What was downloaded is there without the hub.
    loader._download.cache_clear()
    monkeypatch.setattr(constants, "ENDPOINT", NOBODY)
    again = do(place, "run", "back.yaml", "--until", "dataset")
    assert again.stderr.split() == ["dataset", "done", "already"]


def test_a_second_publication_takes_the_place_of_the_first(hub, place):
    publish(place, "--yes")
    repository = hub.repositories["me/bank"]
    repository.files["notes.txt"] = b"mine"
    first = set(repository.files)
    make_run(place / "run", labelled=False)
    assert "deleted" in publish(place, "--yes").stderr
    assert repository.files["notes.txt"] == b"mine"
    assert first - set(repository.files) == {
        f"data/{name}-00000-of-00001.parquet" for name in ("labels", "aside")
    }
    assert len(repository.commits) == 2


def test_a_repository_of_the_users_own_or_a_public_one_is_refused(hub, place):
    files = {".gitattributes": b"", "README.md": b"mine"}
    hub.repositories["me/bank"] = Repository(private=True, files=dict(files))
    assert "README.md" in publish(place, "--yes", code=2).stderr
    assert hub.repositories.pop("me/bank").files == files
    publish(place, "--yes", "--public")
    assert not hub.repositories["me/bank"].private
    assert "public" in publish(place, "--yes", code=2).stderr


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda hub, patch: patch.setenv("HF_TOKEN", "hf_wrong"), 2, "token"),
        (lambda hub, patch: patch.delenv("HF_TOKEN"), 2, "HF_TOKEN"),
        (lambda hub, patch: setattr(hub, "may_write", False), 2, "rights"),
        (lambda hub, patch: setattr(hub, "broken", "/commit/"), 1, "fails"),
        (lambda _, patch: patch.setattr(constants, "ENDPOINT", NOBODY), 1, "reached"),
    ],
    ids=["bad token", "no token", "may not write", "broken", "no hub"],
)
def test_what_goes_wrong_is_told(hub, place, monkeypatch, spoil, code, said):
    spoil(hub, monkeypatch)
    done = publish(place, "--yes", code=code)
    assert said in done.stderr
    assert "Traceback" not in done.stderr and "hf_wrong" not in done.stderr


@pytest.mark.parametrize("name", ["bank", "a/b/c", "../x", "me/ba nk", "me/b..c", "/x"])
def test_a_name_that_is_none_is_refused(hub, place, name):
    done = do(place, "publish", "run", "--to", f"hub:{name}", "--yes", code=2)
    assert "OWNER/NAME" in done.stderr
    assert not hub.asked


@pytest.mark.parametrize(
    ("there", "revision", "named"),
    [
        (False, "main", "no such dataset"),
        (True, "gone", "no such revision"),
        (True, "main", "toolbank publish"),
    ],
)
def test_a_missing_or_other_dataset_is_refused(hub, place, there, revision, named):
    if there:
        hub.repositories["me/bank"] = Repository(private=False)
    write_back(place, revision=revision)
    said = do(place, "plan", "back.yaml", code=2).stderr
    assert "me/bank" in said and named in said
