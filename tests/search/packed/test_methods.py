"""Every method finds the same when it is packed, without torch and what comes with it."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.retrievers.conftest import bank  # noqa: F401 - a fixture
from tests.retrievers.small_methods import configure, encoder_for, fit
from tests.tiny_models import tiny_encoder
from toolbank.bank.records import Tool
from toolbank.encoders.onnx import OnnxNetwork
from toolbank.retrievers import create_retriever
from toolbank.retrievers.refiner.network import export_refiner, make_refiner
from toolbank.retrievers.settings import Bm25Config, NearestConfig
from toolbank.search.finder import Finder

METHODS = "bm25 descriptions nearest tool2vec tuned-tool2vec mlc mlc-frozen refiner nnn protip fusion"
METHODS = tuple(METHODS.split())
QUERIES = ["water my dry lawn", "where is my package", "play jazz", "money back"]
QUERIES.append("zebra")
BLOCKED = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(name)
BLOCKED = ("torch", "transformers", "sentence_transformers", "scipy", "sklearn", "polars",
    "pyarrow", "datasets", "bm25s", "pandas", "huggingface_hub", "scrapy", "aiohttp")
sys.meta_path.insert(0, Blocked())
"""
SEARCH = f"""{BLOCKED}
from pathlib import Path
from toolbank.search.finder import Finder
finder = Finder.open(Path(sys.argv[1]))
found = {{}}
for label, retriever in finder.retrievers.items():
    indices, scores = retriever.search(json.loads(sys.argv[2]), 6)
    found[label] = [indices.tolist(), scores.tolist()]
    finder.answer("play jazz", retriever=label)
print(json.dumps(found))
"""


def run(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def search_without_torch(folder):
    found = json.loads(run(SEARCH, folder, json.dumps(QUERIES)))
    return {
        label: (np.array(indices), np.array(scores, float))
        for label, (indices, scores) in found.items()
    }


@pytest.mark.parametrize("method", [m for m in METHODS if "-" not in m])
def test_no_method_imports_torch_to_search(method):
    code = (
        f"{BLOCKED}\nfrom toolbank.retrievers import RETRIEVERS\n"
        f"RETRIEVERS.find({method!r}, 'retrievers').find_class()"
    )
    run(code)


@pytest.fixture(scope="module")
def fitted(bank, tmp_path_factory):  # noqa: F811
    encoder = encoder_for(tmp_path_factory.mktemp("encoder"), bank, *QUERIES)
    configs = configure(encoder)
    configs["nearest"] = NearestConfig(encoder=encoder)
    return {label: fit(label, configs, bank) for label in METHODS}


@pytest.mark.slow
def test_every_method_finds_the_same_without_torch(fitted, bank, tmp_path):  # noqa: F811
    Finder(fitted, bank.tools).pack(tmp_path / "finder")
    (tmp_path / "finder").rename(tmp_path / "moved")
    found = search_without_torch(tmp_path / "moved")
    assert tuple(found) == METHODS
    for label, (indices, scores) in found.items():
        wanted, wanted_scores = fitted[label].search(QUERIES, 6)
        real = wanted >= 0
        np.testing.assert_allclose(
            scores[real], wanted_scores[real], atol=2e-3, err_msg=label
        )
        assert (indices == wanted).mean() > 0.95, label


@pytest.mark.slow
def test_those_with_networks_are_also_written_in_8_bits(fitted, bank, tmp_path):  # noqa: F811
    some = {label: fitted[label] for label in ("mlc", "refiner", "protip", "bm25")}
    scored = []

    def calibrate(retriever, _):
        scored.append(retriever.search(QUERIES, 6)[1])
        return "it is a test"

    Finder(some, bank.tools).pack(tmp_path, calibrate, ("fp32", "int8"))
    found = search_without_torch(tmp_path)
    networks = [label for label in some if label != "bm25"]
    assert list(found) == [*some, *(f"{label}-int8" for label in networks)]
    for label in networks:
        (_, scores), (_, rough) = found[label], found[f"{label}-int8"]
        assert np.isfinite(rough).any()
        assert not np.array_equal(scores, rough)
    for own, (_, scores) in zip(scored, found.values(), strict=True):
        np.testing.assert_allclose(own, scores, atol=1e-6)
    # A request's answer does not depend on others in flight.
    search = partial(Finder.open(tmp_path).search, k=6, retriever="mlc-int8")
    alone = [search(query) for query in QUERIES]
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(search, QUERIES * 20)) == alone * 20


def test_lexical_methods_pack_no_text_of_requests(bank, tmp_path):  # noqa: F811
    fitted = {config.label: create_retriever(config) for config in FURTHER}
    for retriever in fitted.values():
        retriever.fit(bank)
    Finder(fitted, bank.tools).pack(tmp_path)
    found = Finder.open(tmp_path).retrievers
    for label, retriever in fitted.items():
        np.testing.assert_array_equal(
            retriever.search(QUERIES, 6), found[label].search(QUERIES, 6)
        )
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for query in bank.train_queries:
        assert not any(query.query.encode() in content for content in files)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "deberta", "e5"])
def test_the_refiners_network_is_the_same_on_any_body(tmp_path, kind):
    import torch

    model, tokenizer = make_refiner(str(tiny_encoder(tmp_path / "body", kind)), 8)
    torch.nn.init.normal_(model.head.weight)
    export_refiner(tmp_path / "onnx", model.eval(), tokenizer, 32, 8, "fp32")
    network, draw = OnnxNetwork(tmp_path / "onnx"), np.random.default_rng(0)
    for words, candidates in ((3, 1), (9, 7), (1, 4)):
        inputs = {
            "input_ids": draw.integers(5, 20, (1, words)),
            "attention_mask": np.ones((1, words), np.int64),
            "vectors": draw.normal(size=(1, candidates, 8)).astype(np.float32),
            "features": draw.normal(size=(1, candidates, 2)).astype(np.float32),
            "candidate_mask": np.ones((1, candidates), np.int64),
        }
        with torch.inference_mode():
            given = {name: torch.from_numpy(values) for name, values in inputs.items()}
            wanted = model(**given)["logits"].numpy()
        np.testing.assert_allclose(network.run(**inputs), wanted, atol=1e-4)


NEW = (
    Tool(name="trip.plan", summary="Plan a trip to a city by train."),
    Tool(name="lawn.mow", summary="Mow the lawn."),
)
ASKS = {"trip.plan": ["how do I get to Oslo by rail"]}
FURTHER = (
    Bm25Config(name="words", requests=True),
    NearestConfig(name="near", by="bm25"),
)
QUICK = ("bm25", "words", "near", "tool2vec", "fusion")


def hits_of(finder):
    requests = [*QUERIES, "a train to Oslo", "mow my dry lawn"]
    return [
        {hit.tool.name: hit.score for hit in hits} for hits in finder.rank(requests, 20)
    ]


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=() if label in QUICK else pytest.mark.slow)
        for label in (*METHODS, "words", "near")
    ],
)
@pytest.mark.slow
def test_tools_come_and_go_in_a_pack_as_before(bank, tmp_path, label):  # noqa: F811
    configs = configure(encoder_for(tmp_path / "encoder", bank, *QUERIES))
    configs |= {"nearest": NearestConfig(encoder=configs["mlc"].encoder)}
    configs |= {config.label: config for config in FURTHER}
    own = Finder(fit(label, configs, bank), bank.tools)
    own.pack(tmp_path / "finder")
    packed = Finder.open(tmp_path / "finder")
    for finder in (own, packed):
        finder.add_tools(NEW, ASKS)
        finder.remove_tools([bank.tools[0].name, "lawn.mow"])
    for found, wanted in zip(hits_of(packed), hits_of(own), strict=True):
        assert found == pytest.approx(wanted, abs=2e-3)
    assert packed.answer("trip.plan").hits[0].tool == NEW[0]
    packed.save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "finder")
    again = Finder.open(tmp_path / "saved")
    assert hits_of(again) == hits_of(packed)
    assert again.packed
