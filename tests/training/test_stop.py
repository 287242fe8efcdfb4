import io
import signal
import sys
from dataclasses import replace

import pytest

from tests.training.classifier import TEXTS, Classifier, Clock, Killed, difference
from toolbank.retrievers.base import FitContext
from toolbank.training.config import Saves, TrainingConfig

# Three epochs of four steps.
CONFIG = TrainingConfig(epochs=3, batch_size=16, learning_rate=1e-3)
PAUSE_S = 120.0


def kill():
    raise Killed


@pytest.fixture(scope="module")
def whole(folder):
    classifier = Classifier(folder)
    classifier.train(CONFIG, FitContext(seed=2), improving())
    return classifier


def train_killed(
    folder, context, step, validate=None, rows=None, config=CONFIG, step_s=PAUSE_S
):
    classifier = Classifier(folder, clock=Clock(step_s))
    classifier.rows = rows or classifier.rows
    classifier.on_step[step] = kill
    with pytest.raises(Killed):
        classifier.train(config, context, validate)
    return classifier


def improving():
    """A validation whose figure is best after the second epoch."""
    figures = iter([0.1, 0.4, 0.7, 0.5])
    return lambda: next(figures)


def checkpoints(folder):
    return sorted(path.name for path in folder.iterdir())


# The first step, the ends of the epochs and what begins after them, and one amid each.
@pytest.mark.parametrize("killed_in", [1, 2, 4, 5, 9, 11, 12])
def test_a_kill_in_any_step_loses_that_step(folder, whole, tmp_path, killed_in):
    context = FitContext(seed=2, checkpoints=tmp_path)
    figures = improving()
    first = train_killed(folder, context, killed_in, figures)
    second = Classifier(folder)
    training = second.train(CONFIG, context, figures if killed_in > 1 else improving())
    assert second.steps == 12 - (killed_in - 1)
    order = first.rows.read[: 16 * (killed_in - 1)] + second.rows.read
    assert order == whole.rows.read
    assert training.history == (0.1, 0.4, 0.7, 0.5)
    assert difference(whole.weights(), second.weights()) == 0


@pytest.mark.parametrize(
    "killed_in", [2, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 6))]
)
def test_within_accumulated_batches_too(folder, tmp_path, killed_in):
    """Seven batches of two a step, without validation: the last step of an epoch has one."""
    config = CONFIG.model_copy(update={"batch_size": 10, "accumulation": 2})
    whole = Classifier(folder)
    whole.train(config, FitContext(seed=2))
    context = FitContext(seed=2, checkpoints=tmp_path)
    # Steps are counted in batches here.
    train_killed(folder, context, 2 * killed_in, config=config)
    second = Classifier(folder)
    second.train(config, context)
    assert second.steps < whole.steps - 2 * (killed_in - 2)
    assert difference(whole.weights(), second.weights()) == 0


def test_at_most_two_minutes_are_lost(folder, tmp_path):
    Classifier(folder).train(CONFIG, FitContext(checkpoints=tmp_path), improving())
    assert checkpoints(tmp_path) == []
    train_killed(folder, FitContext(checkpoints=tmp_path), 7, step_s=50)
    # After 150 s and 300 s, each the first step's end that is two minutes from the last save.
    assert checkpoints(tmp_path) == ["checkpoint-3", "checkpoint-6"]


def test_a_training_that_ended_is_kept_for_those_after_it(folder, tmp_path):
    context = FitContext(checkpoints=tmp_path)
    first = Classifier(folder, clock=Clock(50))
    first.train(CONFIG, context, improving())
    # Not two minutes after the save before it, of step 9.
    assert "checkpoint-12" in checkpoints(tmp_path)
    second = Classifier(folder)
    training = second.train(CONFIG, context, lambda: pytest.fail("validated again"))
    assert second.steps == 0
    assert (training.steps, training.history) == (12, (0.1, 0.4, 0.7, 0.5))
    assert difference(first.weights(), second.weights()) == 0


def train_in_turn(folder, context, length, killed_in=None):
    """Do a fit of five trainings, each of 12 steps and of `length` seconds; gives the steps done."""
    done = 0
    for number in range(5):
        classifier = Classifier(folder, clock=Clock(length / 12))
        if killed_in is not None:
            classifier.on_step[killed_in - done] = kill
        try:
            classifier.train(CONFIG, context, part=f"{number}")
        except Killed:
            return done + classifier.steps - 1
        done += classifier.steps
    return done


@pytest.mark.parametrize(
    ("length", "killed_in"),
    [
        (24, 60),
        (40, 47),
        (90, 47),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [(40, 24), (55, 36), (110, 36)]
        ),
    ],
)
def test_at_most_two_minutes_of_a_fit_are_lost(folder, tmp_path, length, killed_in):
    context = FitContext(checkpoints=tmp_path)
    before = train_in_turn(folder, context, length, killed_in)
    again = train_in_turn(folder, replace(context, saves=Saves()), length)
    lost = before + again - 60
    assert 0 <= lost * length / 12 <= PAUSE_S + length / 12


@pytest.mark.slow
def test_and_all_their_saves_take_a_twentieth_of_the_time_at_most(folder, tmp_path):
    rows, context = [], FitContext(checkpoints=tmp_path)
    for number in range(20):
        classifier = Classifier(folder, clock=Clock(50 / 12))
        classifier.rows = SlowToSave(classifier.rows, classifier.clock, 5)
        rows.append(classifier.rows)
        classifier.train(CONFIG, context, part=f"{number}")
    saves = sum(each.saves for each in rows)
    assert 8 <= saves <= 0.05 * (20 * 50 + 5 * saves) / 5


class SlowToSave(list):
    """Rows, to save which takes time."""

    saves = 0

    def __init__(self, rows, clock, save_s):
        super().__init__(rows)
        self.clock, self.save_s = clock, save_s

    def save_epoch(self):
        self.saves += 1
        self.clock.now += self.save_s
        return {}

    def load_epoch(self, saved):
        assert saved == {}


@pytest.mark.parametrize(
    "save_s", [1, 100, *(pytest.param(s, marks=pytest.mark.slow) for s in (30, 30_000))]
)
def test_saving_takes_a_twentieth_of_the_time_at_most(folder, tmp_path, save_s):
    classifier = Classifier(folder, clock=Clock(PAUSE_S))
    classifier.rows = rows = SlowToSave(classifier.rows, classifier.clock, save_s)
    config = CONFIG.model_copy(update={"epochs": 20})
    classifier.train(config, FitContext(checkpoints=tmp_path))
    # By the first one it is known how long it takes; more of them are within their share, with it.
    assert rows.saves == 1 or save_s * rows.saves <= 0.05 * classifier.clock.now
    assert rows.saves >= min(79, 0.045 * 80 * PAUSE_S / save_s)


@pytest.mark.parametrize(
    ("number", "step"), [(signal.SIGINT, 1), (signal.SIGTERM, 6), (signal.SIGINT, 8)]
)
def test_a_signal_ends_it_after_its_step(folder, whole, tmp_path, capfd, number, step):
    def interrupt(*_):
        pytest.fail("not asked")

    context = FitContext(seed=2, checkpoints=tmp_path)
    before = {n: signal.signal(n, interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        first = Classifier(folder)
        first.on_step[step] = lambda: signal.raise_signal(number)
        figures = improving()
        with pytest.raises(KeyboardInterrupt) as stopped:
            first.train(CONFIG, context, figures)
        assert signal.getsignal(number) is interrupt
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert f"Step {step} of 12 of train is kept" in str(stopped.value)
    assert checkpoints(tmp_path) == [f"checkpoint-{step}"]
    assert first.steps == step
    assert "stopping when this step is done" in capfd.readouterr().err
    second = Classifier(folder)
    second.train(CONFIG, context, figures)
    assert difference(whole.weights(), second.weights()) == 0


def test_a_signal_amid_a_write_to_stderr_counts(folder, tmp_path, monkeypatch, capfd):
    class InterruptedByUserError(io.RawIOBase):
        def writable(self):
            return True

        def write(self, text):
            signal.raise_signal(signal.SIGINT)
            return len(text)

    stderr = io.TextIOWrapper(io.BufferedWriter(InterruptedByUserError()))
    classifier = Classifier(folder)
    classifier.on_step[3] = lambda: print("a warning", file=stderr, flush=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(KeyboardInterrupt, match="Step 3 of 12"):
        classifier.train(CONFIG, FitContext(checkpoints=tmp_path))
    assert "stopping when this step is done" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("step_s", "step", "signals", "told"),
    [
        (60, 2, 2, "Nothing is kept of train"),
        (60, 7, 2, "Step 6 of 12"),
        # Steps that take minutes, and a validation.
        (300, 3, 1, "Step 2 of 12"),
        (300, None, 1, "Nothing is kept of train"),
    ],
)
def test_further_signals_end_it_at_once(folder, tmp_path, step_s, step, signals, told):
    def interrupt():
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        pytest.fail("went on")

    classifier = Classifier(folder, clock=Clock(step_s))
    classifier.on_step[step] = interrupt
    context = FitContext(checkpoints=tmp_path)
    with pytest.raises(KeyboardInterrupt, match=told):
        classifier.train(CONFIG, context, None if step else interrupt)


def test_a_save_that_was_cut_short_leaves_the_one_before(folder, tmp_path):
    context = FitContext(seed=2, checkpoints=tmp_path)
    whole = Classifier(folder)
    whole.train(CONFIG, FitContext(seed=2))
    first = Classifier(folder, clock=Clock(PAUSE_S))
    rows = SlowToSave(first.rows, first.clock, 0)
    save = rows.save_epoch
    # Amid the second save.
    rows.save_epoch = lambda: kill() if rows.saves else save()
    first.rows = rows
    with pytest.raises(Killed):
        first.train(CONFIG, context)
    assert checkpoints(tmp_path) == ["checkpoint-1", "unfinished"]
    second = Classifier(folder)
    second.rows = SlowToSave(second.rows, second.clock, 0)
    second.train(CONFIG, context)
    assert second.steps == 11
    assert "unfinished" not in checkpoints(tmp_path)
    assert difference(whole.weights(), second.weights()) == 0


def test_what_rows_keep_of_an_epoch_comes_back_before_it_goes_on(folder, tmp_path):
    """As hard negatives do, which are found by the weights at its beginning."""

    class Drawn(list):
        drawn = None

        def set_epoch(self, epoch):
            if self.drawn != epoch:
                self.drawn = epoch
                draws.append(epoch)

        def save_epoch(self):
            return {"drawn": self.drawn}

        def load_epoch(self, saved):
            self.drawn = saved["drawn"]

    draws = []
    context = FitContext(checkpoints=tmp_path)
    train_killed(folder, context, 7, rows=Drawn(range(len(TEXTS))))
    assert draws == [0, 1]
    second = Classifier(folder)
    second.rows = Drawn(range(len(TEXTS)))
    second.train(CONFIG, context)
    assert draws == [0, 1, 2]


def test_later_checkpoints_have_the_best_weights_and_may_be_moved(folder, tmp_path):
    context = FitContext(checkpoints=tmp_path / "here")
    first, seen = Classifier(folder, clock=Clock(PAUSE_S)), []
    figures = iter([0.1, 0.9, 0.2, 0.3])
    first.on_step[12] = kill
    with pytest.raises(Killed):
        first.train(
            CONFIG, context, lambda: seen.append(first.weights()) or next(figures)
        )
    moved = (tmp_path / "here").rename(tmp_path / "there")
    assert checkpoints(moved) == ["checkpoint-10", "checkpoint-11"]
    second = Classifier(folder)
    context = FitContext(checkpoints=moved)
    training = second.train(CONFIG, context, lambda: next(figures))
    assert training.best_epoch == 1
    assert difference(second.weights(), seen[1]) == 0
