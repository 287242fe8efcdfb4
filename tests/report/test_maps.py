import numpy as np

from toolbank.report.svg import embed


def groups(n, seed=0):
    """Vectors about five corners that are far from each other, and whose corner each is of."""
    random = np.random.default_rng(seed)
    corner = np.arange(n) % 5
    vectors = 10 * np.eye(5, 16)[corner] + random.normal(size=(n, 16))
    return vectors.astype(np.float32), corner


def test_what_is_near_stays_near_and_the_same_vectors_give_the_same_plane():
    vectors, corner = groups(200)
    plane = embed(vectors, seed=-1)
    apart = np.linalg.norm(plane[:, None] - plane, axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (corner[apart.argmin(axis=1)] == corner).all()
    assert (plane.min(), plane.max()) == (0, 1)
    assert (embed(vectors, seed=-1) == plane).all()


def test_few_or_equal_vectors_are_no_trouble():
    assert embed(groups(3)[0], seed=0) is None
    for n in (4, 5, 30):
        assert embed(groups(n)[0], seed=0).shape == (n, 2)
        assert embed(np.ones((n, 16), np.float32), seed=0) is None
    almost = np.ones((30, 16), np.float32)
    almost[0, 0] = 2
    assert np.isfinite(embed(almost, seed=0)).all()
