"""Every method finds the same when it is packed, without torch and what comes with it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.retrievers.conftest import bank  # noqa: F401 - a fixture
from tests.retrievers.small_methods import configure, encoder_for, fit
from tests.tiny_models import tiny_encoder
from toolbank.encoders.onnx import OnnxNetwork
from toolbank.retrievers import RETRIEVERS, create_retriever
from toolbank.retrievers.bm25 import Bm25Config
from toolbank.retrievers.nearest import NearestConfig
from toolbank.retrievers.refiner.network import export_refiner, make_refiner
from toolbank.search.pack import write_packed
from toolbank.search.packed import open_packed

METHODS = (
    "bm25",
    "descriptions",
    "nearest",
    "tool2vec",
    "tuned-tool2vec",
    "mlc",
    "mlc-frozen",
    "refiner",
    "nnn",
    "protip",
    "fusion",
)
QUERIES = [
    "water my dry lawn",
    "where is my package",
    "play jazz",
    "money back",
    "zebra",
]
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
from toolbank.search.packed import open_packed
finder = open_packed(Path(sys.argv[1]))
found = {{}}
for label, retriever in finder.retrievers.items():
    indices, scores = retriever.search(json.loads(sys.argv[2]), 6)
    found[label] = [indices.tolist(), scores.tolist()]
    finder.answer("play jazz", retriever=label)
print(json.dumps(found))
"""


def search_without_torch(folder):
    command = [sys.executable, "-c", SEARCH, str(folder), json.dumps(QUERIES)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {
        label: (np.array(indices), np.array(scores, float))
        for label, (indices, scores) in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("method", [*(m for m in METHODS if "-" not in m)])
def test_no_method_imports_torch_to_search(method):
    home = RETRIEVERS.load(method).retriever.partition(":")[0]
    code = f"{BLOCKED}\nimport {home}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def fitted(bank, tmp_path_factory):  # noqa: F811
    encoder = encoder_for(tmp_path_factory.mktemp("encoder"), bank, *QUERIES)
    configs = configure(encoder)
    configs["nearest"] = NearestConfig(encoder=encoder)
    return {label: fit(label, configs, bank) for label in METHODS}


@pytest.mark.slow
def test_every_method_finds_the_same_without_torch(fitted, bank, tmp_path):  # noqa: F811
    write_packed(tmp_path / "finder", fitted, bank.tools)
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

    write_packed(tmp_path, some, bank.tools, None, calibrate, ("fp32", "int8"))
    found = search_without_torch(tmp_path)
    networks = [label for label in some if label != "bm25"]
    assert list(found) == [*some, *(f"{label}-int8" for label in networks)]
    for label in networks:
        (_, scores), (_, rough) = found[label], found[f"{label}-int8"]
        assert np.isfinite(rough).any()
        assert not np.array_equal(scores, rough)
    for own, (_, scores) in zip(scored, found.values(), strict=True):
        np.testing.assert_allclose(own, scores, atol=1e-6)


def test_methods_that_find_by_the_words_of_requests_pack_none_of_their_texts(
    bank,  # noqa: F811
    tmp_path,
):
    configs = (
        Bm25Config(name="words", requests=True),
        NearestConfig(name="near", by="bm25"),
    )
    fitted = {}
    for config in configs:
        fitted[config.label] = create_retriever(config)
        fitted[config.label].fit(bank)
    write_packed(tmp_path, fitted, bank.tools)
    found = open_packed(tmp_path).retrievers
    for label, retriever in fitted.items():
        for own, packed in zip(
            retriever.search(QUERIES, 6), found[label].search(QUERIES, 6), strict=True
        ):
            np.testing.assert_array_equal(own, packed)
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
