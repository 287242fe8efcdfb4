import pytest

from tests.commands.in_process import toolbank
from tests.world import write_dataset, write_lines

THINGS = "door window lamp oven radio fridge curtain alarm heater fan bell"
DEEDS = {
    "open": "Open the {} of a room",
    "sell": "Sell the {} to a stranger",
    "mend": "Repair a broken {}",
}
# Train requests, copies of them, and how people put the same.
ASKED = {
    "open": (
        "open the {} of my flat",
        "Please open the {} of my flat!",
        "some air, {}",
    ),
    "sell": ("sell my {} online", "sell my {} online now", "turn the old {} into cash"),
    "mend": ("repair the {}", "could you repair the {}", "{} is kaputt, who helps"),
}


@pytest.fixture
def project(tmp_path):
    """A folder with a recipe whose validation requests are copies of the train requests."""
    pairs = [(thing, deed) for thing in THINGS.split() for deed in DEEDS]
    tools = [
        {"name": f"{thing}.{deed}", "description": DEEDS[deed].format(thing)}
        for thing, deed in pairs
    ]
    rows = [
        {"query": ASKED[deed][n].format(x), "tools": [f"{x}.{deed}"], "split": split}
        for n, split in ((0, "train"), (1, "validation"), (2, "test"))
        for x, deed in pairs
    ]
    write_dataset(tmp_path / "data", tools, rows)
    people = [
        {"query": f"{row['query']}, it is {n} now", "tools": row["tools"]}
        for n, row in enumerate(row for row in rows if row["split"] == "test")
    ]
    write_lines(tmp_path / "people.jsonl", people[:20])
    unknown = {"query": "fly", "tools": ["kite"]}
    write_lines(tmp_path / "few.jsonl", [*people[:19], unknown])
    (tmp_path / "house.yaml").write_text(
        "name: house\ndataset: {type: jsonl, path: data}\nbaselines: false\n"
        "retrievers: [{type: bm25, requests: true}]\n"
    )
    return tmp_path


def made(project, *settings):
    """Run and pack; what the commands and the report say."""
    told = []
    for command in (
        ("run", "house.yaml", *settings),
        ("pack", "runs/house", "--out", "finder"),
        ("search", "finder", "sell my lamp"),
    ):
        done = toolbank(*command, cwd=project)
        assert done.returncode == 0, done.stderr
        told.append(" ".join((done.stderr + done.stdout).split()))
    return *told, (project / "runs" / "house" / "report.html").read_text()


def test_copies_of_train_requests_give_no_probability_and_all_say_why(project):
    ran, packed, searched, report = made(project)
    why = "33 of 33 validation requests (100%) nearly repeat a train request"
    for said in (ran, packed, searched, report):
        assert why in said
    for said in (ran, packed, report):
        assert "favour methods that learn from requests" in said
    assert "evaluate.on" in packed and "fits" not in searched
    assert "lamp.sell" in searched
    _, packed, *_ = made(project, "--set", "evaluate.on=[few.jsonl]")
    assert "19 usable requests of the 20 that are needed" in packed
    assert "1: a label names a tool that the bank lacks" in packed


def test_a_file_of_requests_in_peoples_words_calibrates(project):
    _, packed, searched, report = made(project, "--set", "evaluate.on=[people.jsonl]")
    for said in (packed, report):
        assert "20 requests of evaluate.on (people)" in said
    assert "fits: true" in searched and "lamp.sell" in searched
    (project / "people.jsonl").unlink()
    done = toolbank("pack", "runs/house", "--out", "other", cwd=project)
    assert done.returncode == 0
    assert "people.jsonl can't be read" in done.stderr
    assert "scores only rank the hits" in done.stderr
