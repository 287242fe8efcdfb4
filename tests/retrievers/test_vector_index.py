from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from toolbank.bank.ranking import draw_ties, search_vectors
from toolbank.retrievers.dense import EXACT, VectorIndex, write_index
from toolbank.system.errors import InputError

N, D = 3_000, 48


@pytest.fixture(scope="module")
def vectors():
    draws = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


@pytest.fixture
def index(vectors, tmp_path):
    write_index(vectors, tmp_path, exact=1_000)
    return VectorIndex.read(tmp_path, vectors.shape)


def test_its_hits_are_those_of_exact_search(index, vectors):
    names = [str(n) for n in range(200)]
    ties = draw_ties(names, tuple(map(str, range(N))))
    queries = (vectors[:200] + vectors[200:400]) / np.float32(2**0.5)
    indices, scores = index.search(queries, vectors, ties, 10)
    right, cosines = search_vectors(queries, vectors, ties, 10)
    same = [len(np.intersect1d(*pair)) for pair in zip(indices, right, strict=True)]
    assert np.mean(same) > 9.95
    assert np.allclose(scores[:, 0], cosines[:, 0])
    assert (np.diff(scores, axis=1) <= 0).all()
    assert index.reaches(10)
    assert not index.reaches(1_000)


def test_threads_share_one(index, vectors):
    ties = draw_ties(["one"], tuple(map(str, range(N))))

    def ask(n):
        return index.search(vectors[n : n + 1], vectors, ties, 5)[0][0, 0]

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(500))) == [*range(500)]


def test_the_same_vectors_make_the_same_file_and_few_make_none(vectors, tmp_path):
    for name in "ab":
        write_index(vectors, tmp_path / name, exact=1_000)
    first, second = (next((tmp_path / name).iterdir()) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    write_index(vectors, tmp_path)
    assert len(vectors) < EXACT
    assert VectorIndex.read(tmp_path, vectors.shape) is None


@pytest.mark.parametrize("cut", [0, 3, 100, 10_000, None])
def test_one_damaged_or_of_other_vectors_is_named(index, vectors, tmp_path, cut):
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=rf"{path.name}: damaged"):
        VectorIndex.read(tmp_path, (N + (cut is None), D))
