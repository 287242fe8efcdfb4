"""A package of one function and a bank of one request: what a run says before it."""

import pytest

from tests.commands.in_process import do
from tests.world import write_recipe
from toolbank.requests.write.write_step import most_queries
from toolbank.run.advice import advise_before
from toolbank.run.recipe import load_recipe

SDK = '''
def find_order(number):
    """Find the order of a customer."""
'''


@pytest.mark.parametrize(
    ("command", "next_line"),
    [("plan", "Judge: 1 pair"), ("run", "generate 1 query of")],
)
def test_figures_of_no_meaning_are_foretold(tmp_path, monkeypatch, command, next_line):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "one_sdk.py").write_text(SDK)
    source = "{type: python, package: one_sdk}"
    single = {"queries": 1, "min_tools": 1, "max_tools": 1}
    write_recipe(tmp_path, source, engine="rules", **single)
    done = do(tmp_path, command, "mine.yaml", "--set", "judge.pairs=1")
    said = " ".join(f"{done.stderr}\n{done.stdout}".split())
    few = said.index("With 1 tool in all, R@5 is 100")
    untested = said.index("Forecast for 1 accepted request: There are no test requests")
    assert max(few, untested) < said.index(next_line)


@pytest.mark.parametrize("name", ["aws", "numpy", "pandas", "quickstart"])
def test_no_recipe_that_comes_along_is_called_too_small(name):
    recipe = load_recipe(name).recipe
    most = most_queries(recipe.generate)
    assert most is None or not [*advise_before(recipe, 100, most)]
