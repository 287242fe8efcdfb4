"""Each export is opened by its library, in an environment of its own and with the network off."""

import json
import os
import subprocess
import sys
import sysconfig
import venv

import pytest

from tests.publish.runs import BANK, LABELS, QUERIES, TOOLS, make_run
from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask
from toolbank.publish.exports import export_bank
from toolbank.publish.publish import PublicationParts, publish_to_folder

MORE = [
    t.model_copy(
        update={"name": f"shop.{n}", "aliases": (), "summary": f"{n} of an order."}
    )
    for n in ("weight", "status", "price")
    for t in TOOLS[1:2]
]
SHOP = Bank((*TOOLS, *MORE), QUERIES[:5], {"name": "My shop 2"}, BANK.asks, LABELS)

# What is loaded may ask nobody.
OFFLINE = """
import socket
def refuse(*_, **__):
    raise OSError("the network is off")
socket.socket.connect = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Installs a package in an environment of its own; runs a script there, and gives its JSON.

    PyTorch and other large packages are those of these tests.
    """

    def run(package, script, cwd):
        home = tmp_path_factory.mktemp(package)
        venv.create(home)
        program = home / "bin" / "python"
        base, version = sysconfig.get_path("purelib"), sys.version_info
        site = home / "lib" / f"python{version.major}.{version.minor}" / "site-packages"
        (site / "base.pth").write_text(base)
        pip = [program, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*pip, package], capture_output=True, text=True)
        if "No matching distribution" in done.stderr or "Connection" in done.stderr:
            pytest.skip("the package registry can't be reached")
        assert done.returncode == 0, done.stderr
        version = (
            f"from importlib.metadata import version\nprint(version({package!r}))\n"
        )
        done = subprocess.run(
            [program, "-c", f"{OFFLINE}{version}{script}"],
            cwd=cwd,
            capture_output=True,
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "cache")},
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        print(f"opened by {package} {lines[0]}")
        return json.loads(lines[-1])

    return run


@pytest.mark.slow
@pytest.mark.parametrize("form", ["beir", "publication"])
def test_beir_loads_every_split(python, tmp_path, form):
    if form == "publication":
        run = make_run(tmp_path / "run", bank=SHOP, labelled=True)
        publish_to_folder(PublicationParts(run), tmp_path / "out")
    else:
        export_bank(SHOP, form, tmp_path / "out")
    script = """
import json
from beir.datasets.data_loader import GenericDataLoader
print(json.dumps([GenericDataLoader("out").load(split=s)[1:] for s in ("train", "test")]))
"""
    [_, train], [queries, test] = python("beir", script, tmp_path)
    assert queries["q%201"] == QUERIES[0].query
    assert train == {"4": {"shop.find%20order": 2}, "5": {"shop.merge": 2}}
    assert test["2"] == {"shop.find%20order": 2, "shop.merge": 1}


@pytest.mark.slow
def test_mteb_runs_the_task(python, tmp_path):
    export_bank(SHOP, "mteb", tmp_path)
    script = """
import json
import numpy as np
from task import ToolBankMyShop2 as Task
task = Task()
task.load_data()
split = task.dataset["default"]["test"]
import mteb
model = mteb.get_model("mteb/baseline-random-encoder")
scores = mteb.evaluate(model, [Task()], cache=None).task_results[0].scores["test"][0]
print(json.dumps([split["relevant_docs"], len(split["corpus"]), scores["main_score"]]))
"""
    relevant, n, score = python("mteb", script, tmp_path)
    assert relevant["2"] == {"shop.find%20order": 2, "shop.merge": 1}
    assert n == len(SHOP.tools)
    assert 0 <= score <= 1


@pytest.mark.slow
def test_mlcroissant_reads_the_records_of_a_publication(python, tmp_path):
    run = make_run(tmp_path / "run", bank=SHOP, labelled=True)
    publish_to_folder(
        PublicationParts(run, "cc-by-4.0", authors=("Ann",)), tmp_path / "out"
    )
    script = """
import json
import mlcroissant
dataset = mlcroissant.Dataset("out/croissant.json")
issues = dataset.metadata.issues.errors
def rows(name):
    text = lambda v: v.decode() if isinstance(v, bytes) else [*map(text, v)] if hasattr(v, "__len__") and not isinstance(v, str) else v
    return [{k.split("/")[1]: text(v) for k, v in row.items()} for row in dataset.records(name)]
print(json.dumps([[*issues], dataset.metadata.name, rows("queries"), rows("tools"), rows("labels")], default=str))
"""
    issues, name, queries, tools, labels = python("mlcroissant", script, tmp_path)
    assert not issues
    assert name == "shop"
    assert {(one["id"], one["split"]) for one in queries} == {
        ("q 1", "test"),
        ("2", "test"),
        ("4", "train"),
        ("5", "train"),
    }
    assert queries[0]["tools"]
    assert {one["name"] for one in tools} == {tool.name for tool in SHOP.tools}
    assert {one["query"] for one in labels} == {"2", "3", "4", "6"}


def test_sentence_transformers_trains_on_and_evaluates_by_the_export(tmp_path):
    import datasets
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    from tests.tiny_models import tiny_encoder

    asks = (*BANK.asks, Ask(tool="shop.price", kind="terse", ask="price of an order"))
    bank = Bank(SHOP.tools, SHOP.queries, {}, asks, LABELS)
    export_bank(bank, "sentence-transformers", tmp_path / "out")

    def load(name):
        cache = str(tmp_path / "cache")
        return datasets.load_dataset(
            str(tmp_path / "out"), name, split="train", cache_dir=cache
        )

    pairs, triplets = load("pairs"), load("triplets")
    assert pairs.column_names == ["anchor", "positive"]
    assert triplets.column_names == ["anchor", "positive", "negative"]
    assert (len(pairs), len(triplets) > 0) == (4, True)
    # A request for a price may need no other tool that says "order" as loudly.
    corpus, test = (
        json.loads((tmp_path / "out" / name).read_text())
        for name in ("corpus.json", "test.json")
    )
    assert test["relevant_docs"]["2"] == ["shop.find%20order"]
    tiny_encoder(tmp_path / "encoder", words=["order", "total"])
    encoder = SentenceTransformer(str(tmp_path / "encoder"))
    evaluator = InformationRetrievalEvaluator(corpus=corpus, **test)
    assert evaluator(encoder)


def test_no_hard_negative_may_fit(tmp_path):
    export_bank(SHOP, "sentence-transformers", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "triplets.jsonl").open()]
    graded = {label.query: {label.tool} for label in LABELS}
    for row in rows:
        [query] = [q for q in QUERIES if q.query == row["anchor"]] or [None]
        negative = row["negative"].partition(": ")[0]
        assert negative != row["positive"].partition(": ")[0]
        if query:
            assert negative not in {*query.tools, *graded.get(query.id, ())}


def test_toolret_has_its_documented_columns(tmp_path):
    export_bank(SHOP, "toolret", tmp_path)
    queries, tools = (
        [json.loads(line) for line in (tmp_path / name).open()]
        for name in ("queries-test.jsonl", "tools.jsonl")
    )
    # huggingface.co/datasets/mangopy/ToolRet-Queries and ToolRet-Tools
    columns = {
        "id": str,
        "query": str,
        "instruction": str,
        "labels": str,
        "category": str,
    }
    for row in queries:
        assert {name: type(value) for name, value in row.items()} == columns
        for label in json.loads(row["labels"]):
            assert label.keys() == {"id", "doc", "relevance"}
            assert label["doc"].keys() >= {"name", "description", "parameters"}
    by_id = {row["id"]: json.loads(row["documentation"]) for row in tools}
    assert {name: doc["name"] for name, doc in by_id.items()} == {
        n: n for n in SHOP.tool_names
    }
