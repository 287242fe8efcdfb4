"""How diverse the requests are, by groups of their vectors."""

import numpy as np
import pytest

from tests.report.conftest import make_bank
from tests.report.page import text_of, write
from tests.tiny_models import tiny_encoder
from toolbank.report.groups import group_requests
from toolbank.report.vectors import Space
from toolbank.retrievers import create_retriever
from toolbank.retrievers.descriptions.config import DescriptionsConfig


def space(sizes):
    """So many requests about each of some corners, at right angles to each other."""
    corner = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(16, dtype=np.float32)[corner]
    vectors += np.random.default_rng(0).normal(0, 0.01, vectors.shape)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = make_bank(sum(sizes)).queries
    return Space({}, queries, vectors.astype(np.float32)), corner


def test_even_groups_count_as_many_as_there_are():
    requests, corner = space([5] * 12)
    found = group_requests(requests, seed=0)
    assert found.n == 60
    assert [bar.count for bar in found.bars] == [5] * 12
    assert found.effective == pytest.approx(12)
    # Four of the 59 others are of the same corner.
    assert found.cosine == pytest.approx(4 / 59, abs=0.01)
    texts = [query.query for query in requests.queries]
    named = [corner[texts.index(bar.label)] for bar in found.bars]
    assert sorted(named) == list(range(12))


def test_where_most_ask_for_the_like_the_groups_count_as_fewer():
    found = group_requests(space([89, *[1] * 11])[0], seed=-3)
    assert [bar.count for bar in found.bars] == [89, *[1] * 11]
    assert found.effective < 2
    assert found.cosine > 0.7


def test_few_requests_have_no_groups_and_equal_ones_have_one():
    assert group_requests(space([23])[0], seed=0) is None
    alike = Space({}, make_bank(30).queries, np.full((30, 16), 0.25, np.float32))
    found = group_requests(alike, seed=0)
    assert (len(found.bars), found.effective, found.cosine) == (1, 1, 1)


def test_the_page_tells_them(run, tmp_path):
    bank = make_bank(30)
    bank.save(run / "bank")
    encoder = {"model": str(tiny_encoder(tmp_path / "tiny"))}
    retriever = create_retriever(DescriptionsConfig(encoder=encoder))
    retriever.fit(bank)
    retriever.save(run / "models" / "descriptions")
    told = text_of(write(run), "#vectors")
    assert "30 requests in 12 groups by k-means" in told
    assert "What came of thing" in told
