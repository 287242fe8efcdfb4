"""What holds for every method: search, ties, edges, saving, damage."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from toolbank.bank import Bank, Tool
from toolbank.errors import InputError
from toolbank.retrievers import create_retriever, load_retriever
from toolbank.retrievers.config import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    Tool2VecConfig,
)

CONFIGS = {
    config.type: config
    for config in (
        Bm25Config(),
        DescriptionsConfig(),
        NearestConfig(),
        Tool2VecConfig(),
    )
}
REQUESTS = ["soak the plants", "", "refund order 17", "¿dónde está?"]


@pytest.fixture(params=CONFIGS)
def fitted(request, bank):
    retriever = create_retriever(CONFIGS[request.param])
    retriever.fit(bank)
    return retriever


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
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_damaged_or_missing_file_is_told(fitted, tmp_path):
    fitted.save(tmp_path)
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


def test_vectors_that_do_not_fit_the_tools_are_told(fitted, tmp_path):
    fitted.save(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps(["only.one"]))
    with pytest.raises(InputError):
        load_retriever(tmp_path).search(["x"], 1)


def test_numbers_that_can_not_be_are_told(fitted, tmp_path):
    fitted.save(tmp_path)
    path = tmp_path / "vectors.safetensors"
    arrays = load_file(path)
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


@pytest.mark.parametrize(
    "words", ['{"a": 1000000}', '{"a": -1}', '{"a": "x"}', '{"a": true}', "[]"]
)
def test_a_vocabulary_of_another_index_is_told(bank, tmp_path, words):
    retriever = create_retriever(Bm25Config())
    retriever.fit(bank)
    retriever.save(tmp_path)
    (tmp_path / "vocabulary.json").write_text(words)
    with pytest.raises(InputError, match=r"vocabulary\.json: damaged .* Fit it again"):
        load_retriever(tmp_path)


def test_a_foreign_method_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"type": "oracle"}')
    with pytest.raises(InputError, match="oracle"):
        load_retriever(tmp_path)


def test_the_test_split_is_not_learnt_from(fitted, bank):
    blind = create_retriever(CONFIGS[fitted.name])
    blind.fit(Bank(bank.tools, bank.split("train")))
    np.testing.assert_array_equal(
        blind.search(REQUESTS, 6)[1], fitted.search(REQUESTS, 6)[1]
    )


def test_tools_that_read_alike_stand_in_their_order(bank):
    twins = tuple(Tool(name="x", kind="function", summary="Same.") for _ in range(5))
    for config in CONFIGS.values():
        retriever = create_retriever(config)
        retriever.fit(Bank(twins, bank.queries))
        assert retriever.search(["the same"], 5)[0][0].tolist() == [0, 1, 2, 3, 4]
