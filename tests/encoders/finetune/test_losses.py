import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from tests.tiny_models import tiny_encoder
from toolbank.encoders.finetune import make_loss
from toolbank.encoders.finetune_data import TrainingTexts
from toolbank.encoders.ranking_loss import (
    CachedMaskedRankingLoss,
    MaskedRankingLoss,
    SharedTools,
    ranking_losses,
)
from toolbank.encoders.sentence import EncoderTraining

E1, E2, E3 = torch.eye(3)
NOTHING = torch.nn.Identity()


def shared_tools(rows, tools):
    return SharedTools(np.asarray(rows), np.asarray(tools))


def distinct(n_rows, n_columns):
    """Rows whose texts are all about other tools, but for an anchor and its positive."""
    rows = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    tools = np.arange(n_rows * n_columns)[:, None]
    tools[rows[:, 1]] = tools[rows[:, 0]]
    return rows.tolist(), tools.tolist()


def test_a_loss_worked_by_hand():
    losses = ranking_losses(
        anchors=torch.stack([E1, E2]),
        candidates=torch.stack([E1 + E2, 3 * E2, E3]),
        own=torch.tensor([0, 1]),
        excluded=torch.tensor([[False, False, False], [True, False, False]]),
        scale=2.0,
    )
    a, e = 2 / np.sqrt(2), np.exp
    first = -np.log(e(a) / (e(a) + 1 + 1))
    second = -np.log(e(2) / (e(2) + 1))
    assert losses.tolist() == pytest.approx([first, second], rel=1e-5)


@pytest.mark.parametrize("n_columns", [2, 4])
def test_where_nothing_is_shared_it_is_the_librarys(n_columns):
    torch.manual_seed(0)
    embeddings = [torch.randn(6, 8) for _ in range(n_columns)]
    expected = MultipleNegativesRankingLoss(NOTHING, scale=7.0)
    shared = shared_tools(*distinct(6, n_columns))
    ours = MaskedRankingLoss(NOTHING, shared, scale=7.0)
    labels = torch.arange(6)
    assert ours.compute_loss_from_embeddings(
        embeddings, labels
    ).item() == pytest.approx(
        expected.compute_loss_from_embeddings(embeddings, labels).item(), rel=1e-5
    )


def test_texts_that_share_a_tool_with_the_anchor_are_no_negatives():
    # Rows of anchor, positive, negative; the second row's positive is about tool 0 as well.
    rows = [[0, 1, 2], [3, 4, 5]]
    tools = [[0, -1], [0, -1], [2, -1], [1, -1], [1, 0], [3, -1]]
    shared = shared_tools(rows, tools)
    # Columns: both positives, then both negatives.
    assert shared.excluded(torch.tensor([0, 1]), slice(None)).tolist() == [
        [False, True, False, False],
        [False, False, False, False],
    ]
    assert shared.excluded(torch.tensor([1, 0]), slice(1, 2)).tolist() == [
        [True, False, False, False]
    ]


def measure_loss(loss, *given):
    value = loss(*given)
    value.backward()
    gradients = (p.grad.flatten() for p in loss.parameters() if p.grad is not None)
    return value.item(), torch.cat([*gradients])


def check_same_loss(found, expected):
    """Check that losses and gradients are the same, and the gradients not nothing."""
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1].abs().max() > 1e-4
    torch.testing.assert_close(found[1], expected[1], atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("mini_batch", [1, 2, 5, 64])
def test_gradient_caching_changes_neither_loss_nor_gradients(tmp_path, mini_batch):
    folder = tiny_encoder(tmp_path, "bert", dropout=0)
    texts = ["water the lawn", "read a book", "play a song", "drive the car", "go home"]
    rows = [[0, 1, 4], [2, 3, 0], [1, 0, 2], [3, 2, 4], [0, 3, 2]]
    shared = shared_tools(rows, [[0], [0], [1], [1], [2]])
    found = []
    for kind, more in (
        (MaskedRankingLoss, ()),
        (CachedMaskedRankingLoss, [mini_batch]),
    ):
        model = SentenceTransformer(str(folder), device="cpu")
        features = [model.preprocess([texts[row[i]] for row in rows]) for i in range(3)]
        loss = kind(model, shared, 20.0, *more)
        found.append(measure_loss(loss, features, torch.arange(5)))
    check_same_loss(*found)


def test_triplets_are_compared_by_cosine_as_the_search_does():
    tools = np.array([[0], [0], [1]])
    texts = TrainingTexts(("a", "b", "c"), tools, tools, 3)
    training = EncoderTraining(loss="triplet", margin=0.5)
    loss = make_loss(NOTHING, training, np.array([[0, 1, 2]]), texts)
    negative = E1 + E2
    embeddings = [E1[None], E2[None], negative[None]]
    # 1 - 0, less 1 - 1 / sqrt(2), and the margin.
    expected = 1 - (1 - 1 / np.sqrt(2)) + 0.5
    for lengths in ((1, 1, 1), (3, 0.1, 20)):
        scaled = [e * n for e, n in zip(embeddings, lengths, strict=True)]
        value = loss.compute_loss_from_embeddings(scaled, None)
        assert value.item() == pytest.approx(expected, rel=1e-5)
