"""What holds for every method: search, ties, edges, saving, damage."""

import json
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.retrievers.small_methods import TRAINED, configure, encoder_for, fit
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers import create_retriever, load_retriever
from toolbank.retrievers.bm25.config import Bm25Config
from toolbank.retrievers.descriptions.config import DescriptionsConfig
from toolbank.retrievers.nearest.config import NearestConfig
from toolbank.retrievers.tool2vec.config import Tool2VecConfig
from toolbank.system.errors import InputError

CONFIGS = {
    config.label: config
    for config in (
        Bm25Config(),
        DescriptionsConfig(),
        NearestConfig(),
        NearestConfig(name="nearest-bm25", by="bm25"),
        Tool2VecConfig(),
    )
}
REQUESTS = ["soak the plants", "", "refund order 17", "¿dónde está?"]
BELL = Tool(name="door.bell", kind="function", summary="Ring the bell of a house.")


@pytest.fixture(scope="module")
def fit_once(bank, tmp_path_factory):
    """Gives the fitted retriever of a label; the trained ones have a tiny encoder."""
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    small = configure(encoder_for(folder, bank, BELL.summary, *REQUESTS))
    return cache(lambda label: fit(label, CONFIGS if label in CONFIGS else small, bank))


@pytest.fixture(scope="module", params=CONFIGS)
def untrained(request, fit_once):
    return fit_once(request.param)


@pytest.fixture(scope="module", params=TRAINED)
def trained(request, fit_once):
    return fit_once(request.param)


@pytest.fixture(scope="module", params=[*CONFIGS, *TRAINED])
def fitted(request, fit_once):
    return fit_once(request.param)


def test_hits_are_all_tools_in_falling_order(fitted, bank):
    indices, scores = fitted.search(REQUESTS, 100)
    assert indices.shape == scores.shape == (4, 6)
    assert indices.dtype == np.int64
    assert scores.dtype == np.float32
    assert (np.sort(indices, axis=1) == np.arange(6)).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    assert fitted.tools == tuple(tool.name for tool in bank.tools)


def test_fewer_hits_are_the_first_of_more(fitted):
    few, _ = fitted.search(REQUESTS, 2)
    many, _ = fitted.search(REQUESTS, 6)
    np.testing.assert_array_equal(few, many[:, :2])


def test_one_by_one_is_as_all_together(fitted):
    together, _ = fitted.search(REQUESTS, 3)
    for row, request in zip(together, REQUESTS, strict=True):
        np.testing.assert_array_equal(fitted.search([request], 3)[0][0], row)


def test_no_requests_give_no_hits(fitted):
    indices, scores = fitted.search([], 3)
    assert indices.shape == scores.shape == (0, 3)


def test_loaded_it_finds_the_same_without_the_bank(fitted, tmp_path):
    fitted.save(tmp_path)
    loaded = load_retriever(tmp_path)
    assert loaded.name == fitted.name
    assert loaded.tools == fitted.tools
    for one, other in zip(
        loaded.search(REQUESTS, 6), fitted.search(REQUESTS, 6), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_saved_twice_it_has_the_same_bytes(fitted, tmp_path):
    for name in ("one", "two"):
        fitted.save(tmp_path / name)
    for path in read_files(tmp_path / "one"):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()


def read_files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def test_a_damaged_or_missing_file_is_told(untrained, tmp_path):
    untrained.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], b"", b"[1, 2]"):
            path.write_bytes(damaged)
            with pytest.raises(InputError, match=path.name):
                load_retriever(tmp_path)
        path.unlink()
        with pytest.raises(InputError, match=path.name):
            load_retriever(tmp_path)
        path.write_bytes(content)


def test_a_damaged_or_missing_file_of_a_trained_one_is_told_or_makes_no_difference(
    trained, tmp_path
):
    trained.save(tmp_path)
    expected = trained.search(REQUESTS, 6)
    told = set()
    for path in read_files(tmp_path):
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], b"[1, 2]", None):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            try:
                found = load_retriever(tmp_path).search(REQUESTS, 6)
            except InputError:
                told.add((path, damaged))
            else:
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other, path.name)
        path.write_bytes(content)
    for path in read_files(tmp_path):
        if path.suffix == ".safetensors" or path.name == "tools.json":
            assert sum(path == one for one, _ in told) == 3


def test_vectors_that_do_not_fit_the_tools_are_told(fitted, tmp_path):
    fitted.save(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps(["only.one"]))
    with pytest.raises(InputError):
        load_retriever(tmp_path).search(["x"], 1)


def test_numbers_that_can_not_be_are_told(untrained, tmp_path):
    untrained.save(tmp_path)
    path = tmp_path / "vectors.safetensors"
    arrays = load_file(path) if path.exists() else {}
    for name, array in arrays.items():
        wrong = [np.nan, np.inf] if array.dtype.kind == "f" else [-2, 10**6]
        damaged = [array[:-1], array.reshape(-1, 1, 1)]
        if name in {"queries", "descriptions"}:
            damaged.append(array[:, :-1])
        for number in wrong:
            changed = array.copy()
            changed.flat[len(changed.flat) // 2] = number
            damaged.append(changed)
        for changed in damaged:
            save_file({**arrays, name: np.ascontiguousarray(changed)}, path)
            with pytest.raises(InputError, match=r"Fit it again: toolbank train RUN"):
                load_retriever(tmp_path)
    save_file({**arrays, "more": np.zeros(3)}, path)
    load_retriever(tmp_path)


def test_an_added_tool_is_found_and_the_others_stay(fitted, bank, tmp_path):
    before = fitted.search(REQUESTS, 6)[0]
    fitted.save(tmp_path / "before")
    for retriever in (deepcopy(fitted), load_retriever(tmp_path / "before")):
        retriever.add_tools([BELL])
        assert retriever.tools == (*(tool.name for tool in bank.tools), "door.bell")
        retriever.save(tmp_path / "after")
        for one in (retriever, load_retriever(tmp_path / "after")):
            ranked = one.search(["ring the bell of that house"], 7)[0][0].tolist()
            # The four tools of the four train queries may stand first for any request.
            by_votes = fitted.name in ("nearest", "mlc", "mlc-frozen")
            assert ranked.index(6) <= (4 if by_votes else 0)
            hits = one.search(REQUESTS[:1], 7)[0][0]
            np.testing.assert_array_equal(hits[hits < 6], before[0])


@pytest.mark.parametrize("names", [["music.play"], ["new", "new"]])
def test_a_tool_that_is_there_can_not_be_added(fitted, names):
    tools = [Tool(name=name, kind="function") for name in names]
    with pytest.raises(InputError, match=f"{names[-1]}: can't be added"):
        fitted.add_tools(tools)
    assert len(fitted.tools) == 6
    assert fitted.search(["anything"], 10)[0].shape == (1, 6)


def test_hits_of_a_train_query_are_those_of_a_fit_without_it(
    untrained, bank, monkeypatch
):
    # The line that brings unused tools to the others' scale is of all queries.
    for module in ("tool2vec", "nearest"):
        monkeypatch.setattr(
            f"toolbank.retrievers.{module}.retriever.fit_bridge",
            lambda *_: np.array([1.2, 0.1]),
        )
    config = CONFIGS[untrained.name].model_copy(update={"centre": False})
    fitted = create_retriever(config)
    fitted.fit(bank)
    indices, scores = fitted.search_train(bank, 6)
    train = bank.split("train")
    assert indices.shape == scores.shape == (len(train), 6)
    for row, query in enumerate(train):
        others = tuple(other for other in bank.queries if other is not query)
        blind = create_retriever(config)
        blind.fit(Bank(bank.tools, others))
        expected, values = blind.search([query.query], 6)
        if fitted.name != "nearest-bm25":
            np.testing.assert_allclose(scores[row], values[0], atol=2e-6)
        np.testing.assert_array_equal(indices[row], expected[0])


def test_hits_of_train_queries_are_cut_at_k_and_the_same_once_loaded(
    untrained, bank, tmp_path
):
    few, _ = untrained.search_train(bank, 2)
    many, _ = untrained.search_train(bank, 100)
    np.testing.assert_array_equal(few, many[:, :2])
    untrained.save(tmp_path)
    loaded, _ = load_retriever(tmp_path).search_train(bank, 2)
    np.testing.assert_array_equal(few, loaded)


@pytest.mark.parametrize("name", ["descriptions", "tool2vec", "nearest"])
def test_an_encoder_of_another_width_is_told(bank, tmp_path, name):
    retriever = create_retriever(CONFIGS[name])
    retriever.fit(bank)
    retriever.save(tmp_path)
    path = tmp_path / "vectors.safetensors"
    narrow = {
        key: array[..., :100] if array.dtype.kind == "f" else array
        for key, array in load_file(path).items()
    }
    save_file({key: np.ascontiguousarray(a) for key, a in narrow.items()}, path)
    loaded = load_retriever(tmp_path)
    with pytest.raises(
        InputError, match="MiniLM-L6-v2 gives 384 numbers, the saved vectors have 100"
    ):
        loaded.search(["anything"], 1)
    with pytest.raises(InputError, match="gives 384 numbers"):
        loaded.add_tools([Tool(name="new", kind="function")])


@pytest.mark.parametrize("texts", ['["one"]', "[1, 2, 3, 4, 5, 6]", "{}"])
def test_texts_that_do_not_fit_the_tools_are_told(bank, tmp_path, texts):
    for config in (Bm25Config(), NearestConfig(by="bm25")):
        retriever = create_retriever(config)
        retriever.fit(bank)
        retriever.save(tmp_path)
        (tmp_path / "texts.json").write_text(texts)
        with pytest.raises(InputError, match=r"texts\.json: damaged .* Fit it again"):
            load_retriever(tmp_path)


def test_a_foreign_method_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"type": "oracle"}')
    with pytest.raises(InputError, match="oracle"):
        load_retriever(tmp_path)


def test_the_test_split_is_not_learnt_from(untrained, bank):
    blind = create_retriever(CONFIGS[untrained.name])
    blind.fit(Bank(bank.tools, bank.split("train")))
    np.testing.assert_array_equal(
        blind.search(REQUESTS, 6)[1], untrained.search(REQUESTS, 6)[1]
    )


def test_tools_that_read_alike_stand_in_their_order(bank):
    twins = tuple(Tool(name="x", kind="function", summary="Same.") for _ in range(5))
    for config in CONFIGS.values():
        retriever = create_retriever(config)
        retriever.fit(Bank(twins, bank.queries))
        assert retriever.search(["the same"], 5)[0][0].tolist() == [0, 1, 2, 3, 4]
