import numpy as np

from toolbank.report.svg import embed


def groups(n, seed=0):
    """Vectors about five corners that are far from each other, and whose corner each is of."""
    random = np.random.default_rng(seed)
    corner = np.arange(n) % 5
    vectors = 10 * np.eye(5, 16)[corner] + random.normal(size=(n, 16))
    return vectors.astype(np.float32), corner


def test_what_is_near_stays_near():
    vectors, corner = groups(200)
    plane = embed(vectors, seed=0)
    apart = np.linalg.norm(plane[:, None] - plane, axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (corner[apart.argmin(axis=1)] == corner).all()
    assert plane.min() == 0
    assert plane.max() == 1


def test_the_same_vectors_give_the_same_plane():
    vectors, _ = groups(100)
    assert (embed(vectors, seed=-1) == embed(vectors, seed=-1)).all()


def test_few_or_equal_vectors_are_no_trouble():
    assert embed(groups(3)[0], seed=0) is None
    for n in (4, 5, 30):
        assert embed(groups(n)[0], seed=0).shape == (n, 2)
        assert embed(np.ones((n, 16), np.float32), seed=0) is None
    almost = np.ones((30, 16), np.float32)
    almost[0, 0] = 2
    assert np.isfinite(embed(almost, seed=0)).all()
