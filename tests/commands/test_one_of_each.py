"""A package of one function and a bank of one request: what is counted is one thing."""

import json
import re

import pytest

from tests.commands.in_process import do
from toolbank.requests.write.write_step import most_queries
from toolbank.run.advice import advise_before
from toolbank.run.recipe import load_recipe

SDK = '''
def find_order(number):
    """Find the order of a customer."""
'''
RECIPE = """\
name: one
sources: [{type: python, package: one_sdk}]
generate: {engine: rules, queries: 1, tools_per_query: {1: 1}}
judge: {pairs: 1}
retrievers: [{type: bm25}]
baselines: false
"""
LABELLED = {"query": "Where is it?", "tools": ["one_sdk.find_order", "gone"]}
# After a 1, "1 tools" is wrong and "1 tool is", "1 s" and "1 names" are not.
VERBS = {"s", "is", "was", "as", "has", "needs", "names", "stays", "this", "counts"}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """All that the commands say of it, by command."""
    folder = tmp_path_factory.mktemp("one")
    files = {
        "one_sdk.py": SDK,
        "one.yaml": RECIPE,
        "asked.jsonl": json.dumps({"id": "a", "query": "Find my order."}) + "\n",
        "own.jsonl": json.dumps(LABELLED) + '\n{"query": "No.", "tools": []}\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    commands = {
        "plan": ("plan", "one.yaml"),
        "run": ("run", "one.yaml"),
        "evaluate": ("evaluate", "runs/one", "--on", "own.jsonl", "--all"),
        "search": (
            *("search", "runs/one", "--queries", "asked.jsonl"),
            *("--out", "hits.jsonl"),
        ),
        "show": ("show", "runs/one"),
    }
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for name, command in commands.items():
            done = do(folder, *command)
            said[name] = " ".join(f"{done.stderr}\n{done.stdout}".split())
    return said


@pytest.mark.parametrize("command", ["plan", "run"])
def test_where_figures_will_mean_nothing_it_is_said_before(told, command):
    said = told[command]
    few = said.index("With 1 tool in all, R@5 is 100")
    untested = said.index("Forecast for 1 accepted request: There are no test requests")
    before = {"plan": "Judge: 1 pair", "run": "generate 1 query of"}
    assert max(few, untested) < said.index(before[command])


@pytest.mark.parametrize("name", ["aws", "numpy", "pandas", "quickstart"])
def test_no_recipe_that_comes_along_is_called_too_small(name):
    recipe = load_recipe(name).recipe
    most = most_queries(recipe.generate)
    assert most is None or not [*advise_before(recipe, 100, most)]


def test_one_of_anything_is_told_in_the_singular(told):
    everything = " ".join(told.values())
    assert "1 query over 1 tool" in everything
    wrong = re.findall(r"(?<![\d.,])1 ([a-z]+s)\b", everything)
    assert not set(wrong) - VERBS
    assert not re.findall(r"(?<![\d.,])1 \w+ (?:are|were)\b", everything)
    assert "there 1 tool" not in everything
