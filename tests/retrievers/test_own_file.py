"""A retriever from a Python file beside the recipe."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.commands.in_process import do
from tests.servers.named import GRANTS, read_line
from tests.terminal_session import answer_on_terminal
from tests.world import write_dataset, write_dataset_recipe
from toolbank.run.recipe import load_recipe, recipe_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "developing.md"
[SHORTEST] = re.findall(
    r"^```python\n# shortest.py\n(.*?)^```", PAGE.read_text(), re.S | re.M
)
TRACE = "from pathlib import Path\nPath(__file__ + '.ran').touch()\n"
TOOLS = [{"name": f"sort.{'x' * n}", "description": "Sort."} for n in range(1, 7)]
QUERIES = [
    {"query": f"{split} {one}?", "tools": [TOOLS[one]["name"]], "split": split}
    for split in ("train", "validation", "test")
    for one in range(6)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    home = tmp_path / "project"
    home.mkdir()
    write_dataset(home / "data", TOOLS, QUERIES)
    (home / "shortest.py").write_text(SHORTEST + TRACE)
    listed = {"type": "./shortest.py:Shortest", "weight": 0.5}
    write_dataset_recipe(home, "mine", retrievers=["bm25", listed])
    return home


@pytest.fixture
def granted(folder, monkeypatch):
    monkeypatch.setenv(GRANTS, f"import {folder / 'shortest.py'}")
    return folder


def has_run(folder):
    return (folder / "shortest.py.ran").exists()


def test_the_file_runs_only_with_permission(folder, monkeypatch):
    elsewhere = folder.parent
    planned = do(elsewhere, "plan", "project/mine.yaml").stdout
    assert "retrievers/Shortest" in planned and f"export {GRANTS}=" in planned
    do(elsewhere, "schema")
    refused = do(elsewhere, "run", "project/mine.yaml", code=2).stderr
    assert str(folder / "shortest.py") in refused
    assert not has_run(folder) and not (elsewhere / "runs/mine/models").exists()
    monkeypatch.setenv(GRANTS, read_line(refused))
    do(elsewhere, "run", "project/mine.yaml")
    assert has_run(folder)
    do(elsewhere, "pack", "runs/mine", "--out", "p", "--retriever", "Shortest")
    # The next processes begin without an answer or what was imported.
    (folder / "shortest.py.ran").unlink()
    monkeypatch.setenv(GRANTS, "")
    for name in [name for name in sys.modules if name.startswith("toolbank_")]:
        del sys.modules[name]
    do(elsewhere, "show", "runs/mine")
    labelled = elsewhere / "own.jsonl"
    labelled.write_text(json.dumps({"query": "Sort", "tools": [TOOLS[0]["name"]]}))
    for command in (
        ["search", "runs/mine", "Sort", "--retriever", "Shortest"],
        ["search", "p", "Sort"],
        ["evaluate", "runs/mine", "--on", labelled],
        ["run", "project/mine.yaml", "--from", "evaluate"],
    ):
        assert "permission" in do(elsewhere, *command, code=2).stderr
    assert not has_run(folder)


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
@pytest.mark.slow
def test_on_a_terminal_it_is_asked_once(answer, code, folder):
    command = ["run", folder / "mine.yaml", "--out", folder / "out"]
    found, shown = answer_on_terminal(command, f"{answer}\n")
    assert (found, has_run(folder)) == (code, code == 0)
    assert shown.count("[y/N]") == 1


def test_a_run_fits_searches_evaluates_and_fits_again_after_a_change(granted):
    assert "Shortest" in do(granted, "run", "mine.yaml").stdout
    search = ["search", "runs/mine", "Sort", "--retriever", "Shortest"]
    assert "sort.x " in do(granted, *search).stdout.splitlines()[0]
    saved = granted / "runs/mine/models/Shortest/config.json"
    assert json.loads(saved.read_text())["weight"] == 0.5
    again = do(granted, "run", "mine.yaml")
    assert "fitted" not in again.stderr and "done already" in again.stdout
    # The run folder goes on by its own recipe.
    assert "fitted" not in do(granted.parent, "run", "project/runs/mine").stderr
    file = granted / "shortest.py"
    file.write_text(file.read_text().replace("-self.config", "self.config"))
    assert "file_sha256" in do(granted, *search, code=2).stderr
    changed = do(granted, "run", "mine.yaml").stderr
    assert re.search(r"retrievers/Shortest +fitted", changed)
    assert re.search(r"retrievers/bm25 +done already", changed)
    assert "sort.xxxxxx " in do(granted, *search).stdout.splitlines()[0]


def test_a_pack_is_searched_and_a_publication_refused(granted):
    do(granted, "run", "mine.yaml")
    do(granted, "pack", "runs/mine", "--out", "p", "--retriever", "Shortest")
    assert "sort.x " in do(granted, "search", "p", "Sort").stdout.splitlines()[0]
    publish = ["publish", "runs/mine", "--to", "out", "--retriever"]
    refused = do(granted, *publish, "Shortest", code=2).stderr
    assert "shortest.py" in refused and "--retriever" in refused
    do(granted, *publish, "bm25")
    published = [path for path in (granted / "out").rglob("*") if path.is_file()]
    assert not any(str(granted).encode() in path.read_bytes() for path in published)


WRONG = {
    "no class": (SHORTEST.replace("class Shortest(", "class Longest("), 1),
    "wrong base": ("import os\n\nclass Shortest:\n    pass\n", 3),
    "no methods": (SHORTEST.partition("    def fit")[0], None),
    "raises": ("import os\n\ndef f():\n    raise OSError('no')\n\n\nf()\n", 4),
    "reads": ("import json\n\nx = 1\njson.loads('{')\n", 4),
    "exits": ("import sys\nsys.exit(0)\n", 2),
    "no Python": ("x = 1\ny = (\n", 2),
}


@pytest.mark.parametrize(("source", "line"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_told_by_file_line_and_class(source, line, granted):
    (granted / "shortest.py").write_text(source)
    told = do(granted, "run", "mine.yaml", code=2).stderr
    at = line or 1 + source[: source.index("class Shortest(")].count("\n")
    assert f"{granted / 'shortest.py'}, line {at}: Shortest" in told
    assert "Correct the file" in told and "Traceback" not in told
    # Before anything is paid for.
    assert not (granted / "runs/mine").exists()


def test_annotations_may_be_for_type_checkers_alone(granted):
    typed = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from nowhere import Scores\n"
    )
    content = typed + SHORTEST.replace("scores: np.ndarray", "scores: Scores")
    assert "scores: Scores" in content
    (granted / "shortest.py").write_text(content)
    assert "Shortest" in do(granted, "run", "mine.yaml").stdout


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ({"type": "./shortest.py:Shortest", "wieght": 1}, ["wieght", "Shortest"]),
        ({"type": "./gone.py:Shortest"}, ["gone.py", "no such file"]),
        ({"type": "./shortest.py"}, ["no type", "FILE.py:CLASS"]),
    ],
)
def test_a_wrong_entry_is_told_by_its_key_or_file(listed, words, granted):
    write_dataset_recipe(granted, "mine", retrievers=[listed])
    told = do(granted, "run", "mine.yaml", code=2).stderr
    assert all(word in told for word in words)


def test_the_recipe_of_a_run_reads_back_to_the_same(granted):
    first = load_recipe(str(granted / "mine.yaml")).recipe
    do(granted, "run", "mine.yaml")
    again = load_recipe(str(granted / "runs/mine")).recipe
    assert again.retrievers[1].model_dump() == first.retrievers[1].model_dump()
    written = yaml.safe_load((granted / "runs/mine/recipe.yaml").read_text())
    assert written["retrievers"][1]["type"] == f"{granted / 'shortest.py'}:Shortest"
    bare = write_dataset_recipe(granted, "bare", retrievers=["shortest.py:Shortest"])
    [config] = load_recipe(bare).recipe.retrievers
    assert config.files == (granted / "shortest.py",)
    one_of = recipe_schema()["properties"]["retrievers"]["items"]["oneOf"]
    assert any("py:" in one.get("pattern", "") for one in one_of)
