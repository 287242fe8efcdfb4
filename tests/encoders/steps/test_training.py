import numpy as np
import pytest

from tests.tiny_models import tiny_encoder
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.papers.steps.perturb import PERTURBATIONS
from toolbank.papers.steps.problems import ReasoningProblem, join_steps
from toolbank.papers.steps.training import (
    StepsTraining,
    compare_chains,
    make_triples,
    train_on_steps,
)
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingContext

NAMES = "bird book cat dinner door email garden house light music road song sun table"
PROBLEMS = [
    ReasoningProblem(
        "a",
        str(i),
        (f"how many {name} are there in the room?",),
        (f"there is 1 {name}", f"then we buy {i + 2} {name}", f"1 + {i + 2} = {i + 3}"),
    )
    for i, name in enumerate(NAMES.split())
]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tiny_encoder(tmp_path_factory.mktemp("tiny"), dropout=0)
    return SentenceConfig(model=str(folder), document_prefix="passage: ")


def test_rows_hold_context_chain_and_perturbations_of_different_kinds(config):
    triples = make_triples(config, PROBLEMS, 4, seed=0)
    assert triples.rows.shape == (len(PROBLEMS), 6)
    assert sum(triples.kinds.values()) == 4 * len(PROBLEMS)
    for problem, (anchor, own, *negatives) in zip(PROBLEMS, triples.rows, strict=True):
        assert triples.texts[anchor] == problem.context
        chain = f"passage: {join_steps(problem.steps)}"
        assert triples.texts[own] == chain
        texts = {triples.texts[negative] for negative in negatives}
        assert chain not in texts
        assert triples.same[[anchor, own], 0].tolist() == [int(problem.id)] * 2
        assert (triples.same[negatives] == -1).all()


def test_kinds_come_again_where_few_apply_and_none_is_told(config):
    one = ReasoningProblem("a", "1", ("why?",), ("so",))
    triples = make_triples(config, [one], 3, seed=0)
    assert triples.rows.shape == (1, 5)
    assert {kind for kind, n in triples.kinds.items() if n} == {"duplicate"}
    with pytest.raises(InputError, match="No chain"):
        make_triples(config, [ReasoningProblem("a", "1", ("why?",), ())], 1, seed=0)


def test_a_trained_encoder_prefers_the_reference(config, tmp_path):
    before = compare_chains(load_encoder(config), PROBLEMS, seed=1)
    assert before.nearer.shape == (len(PROBLEMS), len(PERTURBATIONS))
    training = StepsTraining(epochs=20, negatives=3, learning_rate=3e-3, batch_size=7)
    encoder, *_ = train_on_steps(config, training, PROBLEMS, TrainingContext(seed=0))
    after = compare_chains(encoder, PROBLEMS, seed=1)
    # Which perturbations apply is no matter of the encoder.
    np.testing.assert_array_equal(np.isnan(before.nearer), np.isnan(after.nearer))
    assert after.of_problems.mean() > before.of_problems.mean() + 0.2
    encoder.save(tmp_path / "saved")
    saved = load_encoder(config.model_copy(update={"model": str(tmp_path / "saved")}))
    again = compare_chains(saved, PROBLEMS, seed=1)
    np.testing.assert_array_equal(again.nearer, after.nearer)
