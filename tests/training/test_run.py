from pathlib import Path

import pytest
import torch

from tests.training.classifier import TEXTS, Classifier, Clock, Killed, difference
from toolbank.retrievers.base import FitContext
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingConfig
from toolbank.training.run import train_model

SHORT = TrainingConfig(epochs=3, batch_size=16, learning_rate=1e-3)


# Four steps of it are an epoch, and the time after which a training is saved.
EPOCH_S = 120.0


def slow(folder, **settings):
    """One whose epochs take as long as it takes until a training is saved."""
    return Classifier(folder, clock=Clock(EPOCH_S / 4), **settings)


def train_killed(folder, checkpoints, values):
    """Train until the validation after these; the weights that validations saw."""
    classifier, seen = slow(folder), []
    validate = scripted(classifier, [*values, None], seen)
    with pytest.raises(Killed):
        classifier.train(SHORT, FitContext(checkpoints=checkpoints), validate)
    return seen


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    path = tmp_path_factory.mktemp("still")
    Classifier(path, dropout=0)
    return path


@pytest.fixture(scope="module")
def whole(folder):
    classifier = slow(folder)
    values = [0.1, 0.4, 0.6, 0.5]
    classifier.train(SHORT, FitContext(), scripted(classifier, values))
    return classifier


def epochs_of(read):
    assert len(read) % len(TEXTS) == 0
    return [read[i : i + len(TEXTS)] for i in range(0, len(read), len(TEXTS))]


def scripted(classifier, values, seen=None):
    """A validation that gives the values in turn, and notes the weights that it saw."""
    left = list(values)

    def validate():
        if seen is not None:
            seen.append(classifier.weights())
        value = left.pop(0)
        if value is None:
            raise Killed
        return value

    return validate


def train_without_lengths(classifier, config):
    rows, collate = classifier.rows, classifier.collate
    return train_model(classifier.model, rows, config, FitContext(), collate=collate)


@pytest.mark.parametrize("by_length", [True, False])
def test_every_epoch_reads_every_example_once_in_an_order_of_its_own(folder, by_length):
    classifier = Classifier(folder)
    if by_length:
        classifier.train(SHORT, FitContext())
    else:
        train_without_lengths(classifier, SHORT)
    epochs = epochs_of(classifier.rows.read)
    assert [sorted(epoch) for epoch in epochs] == [list(range(len(TEXTS)))] * 3
    assert list(range(len(TEXTS))) not in epochs
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_rows_of_like_length_share_a_batch(folder):
    classifier = Classifier(folder)
    classifier.train(SHORT.model_copy(update={"batch_size": 4}), FitContext())
    read = classifier.rows.read

    def padding(order):
        lengths = [len(classifier.ids[place]) for place in order]
        batches = [lengths[i : i + 4] for i in range(0, len(lengths), 4)]
        return sum(max(batch) * len(batch) - sum(batch) for batch in batches)

    assert padding(read) < padding(list(range(len(TEXTS))) * 3) / 2


@pytest.mark.parametrize("killed_in", [0, 1, 2, 3])
def test_if_no_epoch_is_better_the_weights_stay(folder, tmp_path, killed_in):
    values = [0.7, 0.4, 0.7, 0.5]
    context = FitContext(checkpoints=tmp_path)
    before = train_killed(folder, tmp_path, values[:killed_in])[0]
    second = slow(folder)
    # Epochs that were whole are not looked at again, nor is the beginning.
    left = values if killed_in < 2 else values[killed_in:]
    training = second.train(SHORT, context, scripted(second, left))
    assert training.history == tuple(values)
    assert training.best_epoch == 0
    assert difference(second.weights(), before) == 0
    assert not second.model.training


def test_without_validation_all_is_trained_and_the_last_weights_stay(folder):
    classifier = Classifier(folder)
    before = classifier.loss()
    training = classifier.train(SHORT.model_copy(update={"patience": 1}), FitContext())
    assert (training.steps, training.epochs, training.history) == (12, 3, ())
    assert training.best_epoch is None
    assert classifier.loss() < before


def test_the_same_seed_gives_the_same_weights_and_any_will_do(folder):
    made = []
    for seed in (4, 4, -(2**63), 2**63 - 1):
        classifier = Classifier(folder, seed=seed)
        classifier.train(SHORT, FitContext(seed=seed))
        made.append(classifier.weights())
    assert difference(made[0], made[1]) == 0
    assert difference(made[0], made[2]) > 0


def test_accumulated_batches_make_the_step_of_a_large_one(still):
    made = []
    for size, accumulation in ((16, 1), (4, 4)):
        classifier = Classifier(still)
        sizes = {"batch_size": size, "accumulation": accumulation}
        # In 32 bits: in 16 a sum depends on the size of the batch.
        config = SHORT.model_copy(update={**sizes, "epochs": 1, "precision": "fp32"})
        # Without lengths, so that the order doesn't depend on the batch's size.
        assert train_without_lengths(classifier, config).steps == 4
        made.append(classifier.weights())
    assert difference(*made) < 1e-5


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def plant_a_pickle(path):
    torch.save(Path("x"), path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", cut),
        ("optimizer.pt", cut),
        ("optimizer.pt", plant_a_pickle),
        ("optimizer.pt", Path.unlink),
        ("trainer_state.json", cut),
        ("trainer_state.json", Path.unlink),
        ("best.safetensors", Path.unlink),
    ],
)
def test_a_damaged_checkpoint_is_skipped(folder, whole, tmp_path, name, damage):
    train_killed(folder, tmp_path, [0.1, 0.4, 0.6])
    damage(tmp_path / "checkpoint-8" / name)
    second = slow(folder)
    context = FitContext(checkpoints=tmp_path)
    second.train(SHORT, context, scripted(second, [0.6, 0.5]))
    assert len(second.rows.read) == 2 * len(TEXTS)
    assert difference(whole.weights(), second.weights()) == 0


def test_patience_ends_the_training_for_good(folder, tmp_path):
    config = SHORT.model_copy(update={"epochs": 9, "patience": 2})
    context = FitContext(checkpoints=tmp_path)
    first, seen = slow(folder), []
    values = [0.1, 0.4, 0.3, 0.5, 0.5, 0.4]
    training = first.train(config, context, scripted(first, [*values, 1], seen))
    assert training.history == tuple(values)
    assert training.best_epoch == 3
    assert difference(first.weights(), seen[4]) > 0
    second = slow(folder)
    again = second.train(config, context, scripted(second, []))
    assert again.history == tuple(values)
    assert second.rows.read == []
    for one in (first, second):
        assert difference(one.weights(), seen[3]) == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(
            {"precision": "fp16"},
            r"training\.precision: .*GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here"),
        ),
        ({"report_to": ("tensorbord",)}, r"training\.report_to: .*tensorboard"),
    ],
)
def test_what_this_machine_lacks_is_refused(folder, settings, told):
    with pytest.raises(InputError, match=told):
        Classifier(folder).train(SHORT.model_copy(update=settings), FitContext())


def test_tensorboards_files_are_kept_where_the_logs_are(folder, tmp_path):
    pytest.importorskip("tensorboard")
    config = SHORT.model_copy(update={"report_to": ("tensorboard",)})
    context = FitContext(checkpoints=tmp_path / "c", logs=tmp_path / "logs")
    Classifier(folder).train(config, context, lambda: 0.5)
    (written,) = (tmp_path / "logs").rglob("events.*")
    assert b"eval/recall@5" in written.read_bytes()
    assert not list((tmp_path / "c").rglob("events.*"))
