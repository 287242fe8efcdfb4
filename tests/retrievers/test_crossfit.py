import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrievers.small_methods import assert_same_hits, fit_one
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.bm25 import Bm25Retriever
from toolbank.retrievers.crossfit import assign_folds, cross_fit
from toolbank.retrievers.llm_settings import DecompositionConfig
from toolbank.retrievers.nearest import NearestRetriever
from toolbank.retrievers.settings import Bm25Config, NearestConfig
from toolbank.system.errors import InputError

CONTEXT = FitContext(seed=3)
TEXTS = (
    "bake a cake for ten",
    "ride to the station",
    "water the lawn",
    "how old is this tree",
    "paint the fence green",
    "translate a letter",
    "sharpen my knives",
)
NEIGHBOUR = NearestConfig(neighbours=1, by="bm25")
SECOND = DecompositionConfig(first_stage="nearest")


def cross_fit_anew(config, bank, k, context, folds=2):
    retriever = create_retriever(config)
    return cross_fit(
        config.label,
        lambda part, within: retriever.fit_anew(part, within).search,
        bank,
        k,
        context,
        folds,
    )


@pytest.fixture
def own_tools():
    """A bank in which every query has a tool that no other query uses."""
    uses = [(text, [f"t{i}"], "train") for i, text in enumerate(TEXTS)]
    held_back = (TEXTS[0], ["t0"], "validation")
    return make_bank({f"t{i}": "" for i in range(7)}, [held_back, *uses])


@given(
    st.lists(st.sampled_from("abcdefghij"), max_size=30),
    st.integers(2, 6),
    st.integers(0, 9),
)
def test_each_text_is_in_one_fold(texts, folds, seed):
    held_out = assign_folds(texts, folds, seed)
    assert sorted(np.concatenate([[], *held_out])) == list(range(len(texts)))
    assert len(held_out) == min(folds, len(set(texts)))
    fold_texts = [{texts[row] for row in rows} for rows in held_out]
    assert sum(map(len, fold_texts)) == len(set(texts))
    sizes = list(map(len, fold_texts))
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_folds_follow_the_seed_and_not_the_order_of_the_texts():
    texts = list(TEXTS)
    first = {texts[i] for i in assign_folds(texts, 2, seed=1)[0]}
    texts.reverse()
    assert {texts[i] for i in assign_folds(texts, 2, seed=1)[0]} == first
    others = [{texts[i] for i in assign_folds(texts, 2, seed=s)[0]} for s in range(9)]
    assert any(other != first for other in others)


def test_hits_are_in_the_order_of_the_train_queries_and_no_more_than_tools(own_tools):
    expected = fit_one(Bm25Config(), own_tools).search(TEXTS, 3)
    found = cross_fit_anew(Bm25Config(), own_tools, 3, CONTEXT)
    assert_same_hits(found, expected)
    for bank, k, shape in ((own_tools, 64, (7, 7)), (Bank(own_tools.tools), 3, (0, 3))):
        indices, scores = cross_fit_anew(Bm25Config(), bank, k, CONTEXT)
        assert indices.shape == scores.shape == shape


@pytest.fixture
def fits(monkeypatch):
    """The bank and the context of each fit of nearest neighbours."""
    fits = []
    fit = NearestRetriever.fit

    def fit_and_remember(self, bank, context):
        fits.append((bank, context))
        fit(self, bank, context)

    monkeypatch.setattr(NearestRetriever, "fit", fit_and_remember)
    return fits


def test_validation_queries_are_in_every_fold(own_tools, fits):
    cross_fit_anew(NEIGHBOUR, own_tools, 3, CONTEXT)
    banks = [bank for bank, _ in fits]
    assert [len(bank.split("validation")) for bank in banks] == [1, 1]
    assert sum(len(bank.split("train")) for bank in banks) == len(TEXTS)


def test_killed_between_folds_it_goes_on(own_tools, tmp_path, monkeypatch):
    context = FitContext(seed=3, checkpoints=tmp_path / "kept")
    whole = cross_fit_anew(NEIGHBOUR, own_tools, 3, CONTEXT)
    fits = []
    fit = NearestRetriever.fit

    def fit_once(self, bank, context):
        fits.append(context.checkpoints.name)
        if len(fits) == 2:
            raise KeyboardInterrupt
        fit(self, bank, context)

    monkeypatch.setattr(NearestRetriever, "fit", fit_once)
    with pytest.raises(KeyboardInterrupt):
        cross_fit_anew(NEIGHBOUR, own_tools, 3, context)
    found = cross_fit_anew(NEIGHBOUR, own_tools, 3, context)
    assert fits == ["fold-0", "fold-1", "fold-1"]
    assert_same_hits(found, whole)


def test_a_damaged_file_of_hits_is_made_again(own_tools, tmp_path):
    context = FitContext(seed=3, checkpoints=tmp_path)
    whole = cross_fit_anew(NEIGHBOUR, own_tools, 3, context)
    (file,) = (tmp_path / "fold-1-hits").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert_same_hits(cross_fit_anew(NEIGHBOUR, own_tools, 3, context), whole)


def test_each_fit_reports_to_a_folder_of_its_own(own_tools, tmp_path, fits):
    second = fit_one(SECOND, own_tools, fit_one(NEIGHBOUR, own_tools))
    fits.clear()
    context = FitContext(3, tmp_path / "kept", logs=tmp_path / "logs")
    second.search_train(own_tools, 3, context)
    assert [(one.checkpoints, one.logs) for _, one in fits] == [
        (tmp_path / "kept" / fold / "nearest", tmp_path / "logs" / fold / "nearest")
        for fold in ("fold-0", "fold-1")
    ]


def test_a_fold_that_can_not_be_fitted_is_told_from_the_whole(own_tools, monkeypatch):
    fit = Bm25Retriever.fit

    def refuse(self, bank, context):
        if len(bank.split("train")) < 4:
            raise InputError("training: no pairs can be made of 3 train queries.")
        fit(self, bank, context)

    monkeypatch.setattr(Bm25Retriever, "fit", refuse)
    with pytest.raises(InputError) as raised:
        cross_fit_anew(Bm25Config(name="words"), own_tools, 3, CONTEXT)
    for part in ("words", "part 1 of 2", "no pairs can be made of 3", "add train"):
        assert part in str(raised.value)
