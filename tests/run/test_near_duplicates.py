"""Requests that say again what a held-out one says are not trained on."""

import pytest

from tests.world import write_dataset, write_dataset_recipe
from toolbank.run.recipe import load_recipe
from toolbank.run.stages.dataset import read_split

WORDS = [
    "river",
    "stone",
    "cloud",
    "lantern",
    "copper",
    "meadow",
    "harbour",
    "violin",
    "ladder",
    "compass",
]
TOOLS = [f"kit.{word}" for word in WORDS]


@pytest.fixture
def read(tmp_path):
    """Reads 100 requests, of which each says the same as one other, by the settings of a split."""
    rows = []
    for number in range(50):
        first, second = WORDS[number % 5 * 2], WORDS[number % 5 * 2 + 1]
        text = (
            f"in the year {number} we carried a {first} and a {second} over the hills of the "
            "north until the winter came and the snow had closed the road"
        )
        needed = [f"kit.{first}", f"kit.{second}"]
        for copy, ending in enumerate((".", ", as ever.")):
            row = {"id": f"{number}-{copy}", "query": text + ending, "tools": needed}
            rows.append(row)
    write_dataset(tmp_path / "data", TOOLS, rows)

    def read(by):
        split = {"by": by, "test": 0.2, "validation": 0.1}
        path = write_dataset_recipe(tmp_path, "planted", split=split)
        return read_split(load_recipe(path).recipe)

    return read


@pytest.mark.parametrize("by", ["random", "set", "tool", "family"])
def test_no_near_duplicate_is_in_two_splits(read, by):
    found = read(by)
    of_number = {}
    for query in found.queries:
        if query.split is not None:
            of_number.setdefault(query.id.partition("-")[0], set()).add(query.split)
    assert all(len(both) == 1 for both in of_number.values())
    if by == "family":
        return
    assert {"train", "test"} <= {query.split for query in found.queries}
    if by == "random":
        reason = "query: near-duplicate of one that is held out"
        gone = sum(query.split is None for query in found.queries)
        assert found.left_out[reason]["count"] == gone > 0
        assert f"left out: {reason} ({gone:,})" in found.describe_left_out()
