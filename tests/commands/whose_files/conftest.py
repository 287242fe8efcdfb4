import os
from pathlib import Path

import pytest

from tests.commands.conftest import BY_RULES
from tests.commands.in_process import do
from tests.commands.whose_files.project import fresh
from tests.world import PACKAGE, write_recipe

SMALL = """\
name: small
sources: [{type: python, package: json}]
generate: {engine: rules, queries: 3}
retrievers: [{type: bm25}]
baselines: false
"""


ASKED = '{"query": "middle value", "tools": ["statistics.median"]}\n'


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    (folder / "diary.txt").write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
        yield folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A project of a user: recipes, data, links, and a run."""
    folder = tmp_path_factory.mktemp("world") / "project"
    folder.mkdir()
    recipe = Path(write_recipe(folder, PACKAGE, **BY_RULES))
    do(folder, "run", "mine.yaml")
    (folder / "small.yaml").write_text(SMALL)
    by_hand = "# My own words.\n" + recipe.read_text()
    texts = {
        "asked.jsonl": ASKED,
        "data/tools.jsonl": "{}\n",
        "data/deep/functions.json": "[]",
        "stages/stages.json": '{"first": {"name": "mine"}}',
    }
    for name in ("recipe.yaml", "byhand/recipe.yaml", "stages/recipe.yaml"):
        texts[name] = by_hand
    for name in (
        *("report.html", "hidden/.keep", "locked/.lock", "prompts/write.jinja"),
        *("crawled/rules.yaml", "crawled/cache/notes.txt"),
    ):
        texts[name] = "mine"
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    for name, target in {
        "link.jsonl": "asked.jsonl",
        "nowhere.jsonl": "missing.jsonl",
        "linked": "data",
        "loop": "loop",
        "runs/linked": "../empty",
    }.items():
        (folder / name).symlink_to(target)
    os.link(folder / "asked.jsonl", folder / "hard.jsonl")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
def project(world, tmp_path):
    return fresh(world, tmp_path)
