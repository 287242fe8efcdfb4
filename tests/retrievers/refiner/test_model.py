import json

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tests.tiny_models import KINDS, tiny_encoder
from toolbank.retrievers.refiner.network import collate, longest_request, make_refiner
from toolbank.system.errors import InputError

DIMENSION = 24
TOLERANCE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture(scope="module", params=KINDS)
def model(request, tmp_path_factory):
    folder = tiny_encoder(tmp_path_factory.mktemp(request.param), request.param)
    torch.manual_seed(0)
    model, _ = make_refiner(str(folder), DIMENSION)
    # New weights are so small that attention hardly tells one place from another.
    with torch.no_grad():
        for weights in model.body.parameters():
            weights.mul_(8 if weights.ndim > 1 else 1)
        torch.nn.init.normal_(model.head.weight)
    return model.eval()


def make_rows(lengths, n_candidates=6):
    random = np.random.default_rng(1)
    return [
        {
            "ids": random.integers(4, 100, length).tolist(),
            "vectors": random.normal(size=(n_candidates, DIMENSION)).astype(np.float32),
            "features": random.normal(size=(n_candidates, 2)).astype(np.float32),
        }
        for length in lengths
    ]


def judge(model, rows):
    with torch.inference_mode():
        return model(**collate(rows, pad_id=0))["logits"].numpy()


def reorder(row, order):
    moved = {name: row[name][order] for name in ("vectors", "features")}
    return {**row, **moved}


def test_near_scores_of_the_first_stage_are_told_apart_in_a_training_of_16_bits(model):
    (row,) = make_rows([9], n_candidates=2)
    features = np.float32([[5.001, 0], [5, 0]])
    row |= {"vectors": row["vectors"][[0, 0]], "features": features}
    with torch.autocast("cpu", torch.bfloat16):
        near, far = judge(model, [row])[0]
    slope = model.first_stage.weight[0, 0].item()
    assert near - far == pytest.approx(0.001 * slope, rel=0.01)


def test_other_orders_and_other_requests_change_nothing(model):
    (row,) = make_rows([9])
    scores = judge(model, [row])[0]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(6)
        moved = judge(model, [reorder(row, order)])[0]
        np.testing.assert_allclose(moved, scores[order], **TOLERANCE)
    rows = make_rows([9, 30, 1, 4, 57])
    together = judge(model, rows)
    for row, scores in zip(rows, together, strict=True):
        np.testing.assert_allclose(judge(model, [row])[0], scores, **TOLERANCE)


def test_padding_of_words_and_of_candidates_changes_nothing(model):
    row, more = make_rows([9, 9])
    scores = judge(model, [row])[0]
    longer = {
        name: np.concatenate([row[name], more[name]])
        for name in ("vectors", "features")
    }
    inputs = collate([{**row, **longer}], pad_id=0)
    inputs["candidate_mask"][:, 6:] = 0
    for length in (0, 1, 70):
        padded = dict(inputs)
        for name in ("input_ids", "attention_mask"):
            padded[name] = torch.nn.functional.pad(inputs[name], (0, length))
        with torch.inference_mode():
            found = model(**padded)["logits"].numpy()
        np.testing.assert_allclose(found[0, :6], scores, **TOLERANCE)


def test_request_vectors_features_and_company_all_count(model):
    row, other = make_rows([9, 9])
    scores = judge(model, [row])[0]
    for name in ("ids", "vectors", "features"):
        changed = judge(model, [{**row, name: other[name]}])[0]
        assert np.abs(changed - scores).max() > 1e-3
    vectors = row["vectors"].copy()
    vectors[5] = other["vectors"][5]
    company = judge(model, [{**row, "vectors": vectors}])[0]
    assert np.abs(company[:5] - scores[:5]).max() > 1e-4


def test_the_longest_request_fits(model):
    rows = make_rows([longest_request(model.body)])
    assert np.isfinite(judge(model, rows)).all()


def test_the_loss_is_binary_cross_entropy_over_the_real_candidates(model):
    rows = make_rows([9, 12])
    for row, weight in zip(rows, (1.0, 0.25), strict=True):
        row["labels"] = np.array([True, False, False, True, False, False])
        row["weight"] = weight
    inputs = collate(rows, pad_id=0)
    inputs["candidate_mask"][1, 4:] = 0
    with torch.inference_mode():
        out = model(**inputs)
    losses = binary_cross_entropy_with_logits(
        out["logits"], inputs["labels"].float(), reduction="none"
    )
    expected = (losses[0].sum() + 0.25 * losses[1, :4].sum()) / (6 + 0.25 * 4)
    assert out["loss"].item() == pytest.approx(expected.item(), abs=1e-6)


def test_vectors_are_projected_by_normal_numbers(tmp_path):
    model, _ = make_refiner(str(tiny_encoder(tmp_path)), 2000)
    weights = model.project.weight.detach().numpy()
    assert weights.mean() == pytest.approx(0, abs=0.01)
    assert weights.std() == pytest.approx(0.2, abs=0.01)


def test_every_weight_is_trained(model):
    (row,) = make_rows([9])
    row |= {"labels": np.array([True] + [False] * 5), "weight": 1.0}
    model.zero_grad()
    model(**collate([row], pad_id=0))["loss"].backward()
    without = [n for n, p in model.named_parameters() if p.grad is None]
    model.zero_grad()
    assert without == []


def test_an_encoder_of_another_kind_or_with_a_convolution_is_refused(tmp_path):
    from transformers import AutoConfig, AutoModel

    folder = tiny_encoder(tmp_path)
    config = AutoConfig.for_model("distilbert", dim=32, n_layers=1, n_heads=2)
    AutoModel.from_config(config).save_pretrained(folder)
    with pytest.raises(InputError, match=r"'distilbert'.*deberta-v2"):
        make_refiner(str(folder), DIMENSION)
    path = tiny_encoder(tmp_path, "deberta") / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "conv_kernel_size": 3}))
    with pytest.raises(InputError, match="convolution"):
        make_refiner(str(tmp_path), DIMENSION)
