from contextlib import contextmanager

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from transformers import AutoTokenizer

from tests.retrievers.small_methods import configure, encoder_for, fit, paired_bank
from toolbank.retrievers import RETRIEVERS
from toolbank.retrievers.base import FitContext

WITH_A_BODY = ("mlc", "refiner", "protip", "tuned-tool2vec")
PREFIXES = {"query_prefix": "query: ", "document_prefix": "passage: "}


@pytest.fixture(scope="module")
def bank():
    return paired_bank()


@pytest.fixture(scope="module")
def configs(bank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    encoder = encoder_for(folder, bank, *PREFIXES.values(), **PREFIXES)
    return configure(encoder, batch_size=8)


@contextmanager
def every_call(hook):
    """Have `hook(module, inputs, output)` called after each module's forward."""
    handle = register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("label", WITH_A_BODY)
def test_dropout_is_on_in_training_and_off_elsewhere(bank, configs, label):
    modes = set()

    def note(module, *_):
        if isinstance(module, torch.nn.Dropout) and module.p > 0:
            modes.add((torch.is_grad_enabled(), module.training))

    with every_call(note):
        fit(label, configs, bank)
    # On also after an epoch began with mined negatives, for which it was off.
    assert modes == {(True, True), (False, False)}


@pytest.mark.parametrize("label", WITH_A_BODY)
def test_prefixes_are_read_in_training_as_in_search(bank, configs, label):
    tokenizer = AutoTokenizer.from_pretrained(configs[label].encoder.model)
    heads = {
        tuple(tokenizer(text)["input_ids"][:3]): text for text in PREFIXES.values()
    }
    read = set()

    def note(module, inputs, _):
        embeds = isinstance(module, torch.nn.Embedding)
        if embeds and module.num_embeddings == len(tokenizer):
            for row in inputs[0].tolist():
                head = heads.get(tuple(row[:3]))
                read.add((torch.is_grad_enabled(), head))

    with every_call(note):
        made = fit(label, configs, bank)
        trained = {head for has_gradient, head in read if has_gradient}
        read.clear()
        made.search(["a road to the house"], 3)
    searched = {head for _, head in read}
    assert "query: " in trained
    # Where documents are encoded in training it is behind their own prefix.
    assert trained <= set(PREFIXES.values())
    assert trained == {"query: "} or label in ("protip", "tuned-tool2vec")
    assert searched == {"query: "}


@pytest.fixture
def strict(monkeypatch):
    """Searches, with their requests, and fits; none is asked for what it was fitted on."""
    asked, fits = [], []
    for kind in ("protip", "tool2vec", "nnn", "descriptions", "mlc", "refiner"):
        method = RETRIEVERS.find(kind, "").find_class()

        def fit_and_remember(self, part, context=None, fit=method.fit):
            fits.append(self)
            self.met = {query.query for query in part.split("train")}
            fit(self, part, context)

        def check(self, queries, k, search=method.search):
            asked.append((self.name, tuple(queries)))
            assert not getattr(self, "met", set()) & set(queries)
            return search(self, queries, k)

        monkeypatch.setattr(method, "fit", fit_and_remember)
        monkeypatch.setattr(method, "search", check)
    return asked, fits


@pytest.mark.parametrize(
    "label", ["mlc-frozen", "refiner", "protip", "tuned-tool2vec", "nnn-tuned"]
)
def test_train_queries_are_searched_by_unknowing_ones(bank, configs, label, strict):
    nnn = configs["nnn"].model_copy(
        update={"name": "nnn-tuned", "first_stage": "tuned-tool2vec"}
    )
    configs = {**configs, "nnn-tuned": nnn}
    made = fit(label, configs, bank)
    asked, fits = strict
    asked.clear()
    before = len(fits)
    indices, _ = made.search_train(bank, 3, FitContext(seed=1))
    train = [query.query for query in bank.split("train")]
    validation = {query.query for query in bank.split("validation")}
    assert indices.shape == (len(train), 3)
    assert len(fits) - before >= 2
    of_it = [q for name, queries in asked if name == label for q in queries]
    assert set(of_it) - validation == set(train)
