"""The examples of docs/developing.md are a package that works."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_layout import LAYER
from tests.world import write_dataset_recipe

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
MODEL = """
async def ask_my_model(messages, schema):
    return messages[-1].content
"""
THINGS = ("prices", "sales", "rents", "wages", "ages", "scores")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path):
    """The page's files as an installed package, and what they read."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "model.py").write_text(MODEL)
    for code in blocks("python"):
        file = tmp_path / re.match(r"# (\S+\.py)\n", code).group(1)
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1\n"
    )
    entries = "\n".join(blocks("toml"))
    (info / "entry_points.txt").write_text(
        re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", entries).replace('"', "")
    )
    functions = [
        {
            "name": f"shop.{thing}",
            "description": f"Sort the {thing} of a shop.",
            "parameters": {"type": "object"},
        }
        for thing in THINGS
    ]
    (tmp_path / "listed.json").write_text(json.dumps(functions))
    rows = [("request", "tool", "description", "split")]
    for split in ("train", "test"):
        rows += [(f"{split} {one}?", f"sort.{one}", "Sort.", split) for one in THINGS]
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "pairs.tsv").write_text("\n".join(map("\t".join, rows)))
    return tmp_path


def run(folder, *command):
    path = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CHECKED = """
import pytest
from my_package import engine, listed, pairs, popular

from toolbank.bank.bank import Bank
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError
from toolbank.testing import datasets, retrievers, sources

FILE = PATH / "listed.json"


@pytest.mark.parametrize("ignored", ["parameters", "options"])
def test_engine(ignored):
    config = GenerateConfig(engine="mine", model="small", **{ignored: {"top_p": 0.5}})
    with pytest.raises(InputError, match=rf"^generate\\.{ignored}"):
        engine.KIND.check(config)


@pytest.mark.parametrize("check", sources.CHECKS, ids=lambda check: check.__name__)
def test_source(check, tmp_path):
    text = FILE.read_text()
    check(
        sources.SourceCase(
            listed.KIND,
            listed.ListedSource(file=FILE),
            unreadable=(listed.ListedSource(file=tmp_path / "missing.json"),),
            canary=tmp_path / "canary",
            change=lambda: FILE.write_text(text.replace("of a shop", "again")),
        )
    )


@pytest.mark.parametrize("check", datasets.CHECKS, ids=lambda check: check.__name__)
def test_format(check):
    config = pairs.PairsConfig(type="pairs", path=PATH / "pairs")
    check(datasets.DatasetCase(pairs.KIND, config))


@pytest.mark.parametrize("check", retrievers.CHECKS, ids=lambda check: check.__name__)
def test_retriever(check):
    config = pairs.PairsConfig(type="pairs", path=PATH / "pairs")
    dataset = pairs.KIND.read(config)
    bank = Bank(dataset.tools, dataset.queries)
    check(retrievers.RetrieverCase(popular.KIND, popular.PopularConfig(), bank))
"""


def test_every_kind_of_the_page_passes_the_checks(package):
    checked = CHECKED.replace("PATH", f"__import__('pathlib').Path({str(package)!r})")
    (package / "tests" / "test_checked.py").write_text(checked)
    assert " passed" in run(package, "pytest", "-p", "no:cacheprovider", "tests")


def test_the_dataset_makes_a_run(package):
    keys = {"dataset": {"type": "pairs", "path": "pairs"}, "retrievers": ["popular"]}
    recipe = write_dataset_recipe(package, "theirs", **keys)
    run(package, "toolbank", "run", recipe, "--until", "retrievers")
    [fitted] = (package / "runs/theirs/models").iterdir()
    assert fitted.name == "popular"


def test_the_picture_shows_every_package_in_its_layer():
    [picture] = blocks("text")
    lines = re.findall(r"^.{13}(\S.{27})", picture, re.M)[:-1]
    shown = [name for names in lines for name in names.split()]
    assert sorted(shown) == sorted(LAYER)
    layers = [LAYER[name] for name in shown]
    assert layers == sorted(layers, reverse=True)


def test_the_import_paths_that_stay_are_there_and_cover_the_examples():
    paragraph = PAGE.partition("can rely on these import paths")[2]
    paragraph = paragraph.partition("## An engine")[0]
    listed = set(re.findall(r"`(toolbank[\w.]*)`", paragraph))
    for path in listed:
        import_module(path)
    used = set(re.findall(r"^from (toolbank\.[\w.]+) import", PAGE, re.MULTILINE))
    assert used <= listed
