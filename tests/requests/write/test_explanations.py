"""Explanations are held against the tools of their queries, and those that fail are told."""

import numpy as np
import pytest

from tests.tiny_models import tiny_encoder
from tests.world import write_recipe
from toolbank.bank.records import Query, Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.requests.quality.texts import check_explanations, describe_explanations
from toolbank.requests.write.config import ExplanationsConfig
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.files import read_json

TOOLS = [Tool(name=name) for name in ("water the garden", "play jazz", "read email")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return SentenceConfig(model=str(tiny_encoder(tmp_path_factory.mktemp("tiny"))))


def query(name, explanation, *tools):
    more = {"query": "do it now", "draft": "do it", "tools": tools}
    return Query(id=name, explanation=explanation, **more)


def test_a_tool_that_no_step_speaks_of_is_told(encoder):
    both = "Water the garden. Play jazz."
    queries = [
        query("good", both, "water the garden", "play jazz"),
        query("half", both, "water the garden", "read email"),
        query("none", "", "read email"),
        query("gone", both, "no longer there"),
    ]
    config = ExplanationsConfig(encoder=encoder, within=1)
    found = check_explanations(queries, TOOLS, config)
    assert found["explained"] == 3
    assert found["without_explanation"] == 1
    [row] = found["queries"]
    assert (row["id"], row["tools"]) == ("half", ["read email"])
    steps = load_encoder(encoder).encode_documents(["Water the garden.", "Play jazz."])
    source = load_encoder(encoder).encode_queries(["do it", "do it now"])
    expected = ((1 + (steps @ source.T).max(axis=1)) / 2).mean()
    np.testing.assert_allclose([row["alignment"], found["alignment"]], expected, 1e-5)
    [said] = describe_explanations(found)
    assert "1 of 3 explanations" in said
    assert "half (read email)" in said
    with_room = ExplanationsConfig(encoder=encoder, within=3)
    found = check_explanations(queries, TOOLS, with_room)
    assert (found["queries"], describe_explanations(found)) == ([], [])


def test_a_run_reports_them_where_its_recipe_says_so(tmp_path, encoder):
    path = write_recipe(tmp_path, engine="rules", queries=12)

    def run(*settings):
        return run_recipe(load_recipe(path, settings), tmp_path / "out").folder.bank

    bank = run()
    file = bank / "explanations.json"
    assert not file.exists()
    queries = (bank / "queries.parquet").read_bytes()

    keys = (f"encoder={encoder.model}", "within=1")
    run(*(f"generate.explanations.{key}" for key in keys))
    found = read_json(file)
    assert found["explained"] + found["without_explanation"] == 12
    assert (bank / "queries.parquet").read_bytes() == queries

    run()
    assert not file.exists()
