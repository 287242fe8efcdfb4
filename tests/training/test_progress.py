import io
import threading
from contextlib import redirect_stderr

import pytest

from tests.training.classifier import Classifier, Clock
from toolbank.retrievers.base import FitContext
from toolbank.training.config import TrainingConfig

CONFIG = TrainingConfig(epochs=3, batch_size=16, learning_rate=1e-3)
# Real seconds until a test gives up.
PATIENCE_S = 20


class Told(io.StringIO):
    """Stands for stderr off a terminal: its lines of steps, and when by a clock each came."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.lines, self.at = [], []
        self._due = 0.0
        self._more = threading.Condition()

    def write(self, text):
        with self._more:
            written = super().write(text)
            if ": step " in text:
                self.lines.append(text)
                self.at.append(self.clock.now)
            self._more.notify_all()
        return written

    def wait_for(self, count):
        with self._more:
            assert self._more.wait_for(lambda: len(self.at) >= count, PATIENCE_S)

    def let_go_by(self, ended, seconds):
        """Waits as `Event.wait`, but by the clock, and from when the last wait was over."""
        self._due += seconds
        while self.clock.now < self._due and not ended.is_set():
            ended.wait(0.001)
        return ended.is_set()


@pytest.fixture
def told():
    return Told(Clock())


def train(folder, told, step_s, *arguments, on_step=None, **context):
    classifier = Classifier(folder, clock=told.clock)
    told.clock.step_s = step_s
    classifier.on_step = on_step or {}
    context = FitContext(wait=told.let_go_by, **context)
    with redirect_stderr(told):
        classifier.train(CONFIG, context, *arguments, title="tool2vec")


def test_it_says_nothing_where_it_is_short_and_there_is_no_terminal(folder, capfd):
    classifier = Classifier(folder)
    capfd.readouterr()
    classifier.train(CONFIG, FitContext(), lambda: 1.0)
    assert capfd.readouterr() == ("", "")


def test_it_has_a_line_a_minute_within_an_epoch_too(folder, told, tmp_path):
    # A step takes 30 s, so that a minute is over in every second one.
    minutes = {2 * n: lambda n=n: told.wait_for(n) for n in range(1, 7)}
    train(folder, told, 30, lambda: 0.5, on_step=minutes, checkpoints=tmp_path)
    assert told.at == [60, 120, 180, 240, 300, 360]
    first, last = told.lines[0], told.lines[-1]
    for part in ("tool2vec: step 1 of 12", "recall@5 0.5"):
        assert part in first
    assert "nothing is kept" in first
    assert "step 11 of 12" in last
    assert "step 8 is kept" in last


def test_how_long_it_takes_is_told_of_ten_steps(folder, told):
    minutes = {n: lambda n=n: told.wait_for(n) for n in range(1, 13)}
    train(folder, told, 60, on_step=minutes)
    assert not any("left" in line for line in told.lines[:10])
    # Eleven minutes went by in ten steps, and two are left.
    assert "step 10 of 12, 66 s a step" in told.lines[10]
    assert "about 2.2 min left" in told.lines[10]


def test_a_validation_of_minutes_has_its_lines_too(folder, told):
    def validate():
        told.clock.now += 60
        told.wait_for(round(told.clock.now / 60))
        return 0.5

    train(folder, told, 0, validate)
    assert told.at == [60, 120, 180, 240]
    assert "step 0 of 12" in told.lines[0]


def test_it_says_which_fit_it_is_in(folder, told):
    part = "held-out part 1 of 2, for refiner"
    train(folder, told, 60, on_step={1: lambda: told.wait_for(1)}, of=part)
    assert f"tool2vec, {part}: step 0 of 12" in told.lines[0]


def test_it_says_from_which_step_it_goes_on(folder, told, tmp_path):
    def stop():
        raise KeyboardInterrupt

    first = Told(Clock())
    with pytest.raises(KeyboardInterrupt):
        train(folder, first, 120, on_step={7: stop}, checkpoints=tmp_path)
    train(folder, told, 0, checkpoints=tmp_path)
    assert "from step 6 of 12" in told.getvalue()
