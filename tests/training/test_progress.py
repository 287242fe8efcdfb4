"""What a training says while it goes on."""

import re
import threading

import pytest

from tests.training.classifier import Classifier, Clock
from toolbank.retrievers.base import FitContext
from toolbank.training import progress
from toolbank.training.config import TrainingConfig

CONFIG = TrainingConfig(epochs=3, batch_size=16, learning_rate=1e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    Classifier(path)
    return path


class Lines:
    """What is said, and a way to wait for the next line."""

    def __init__(self, monkeypatch):
        self.lines = []
        self._more = threading.Condition()
        monkeypatch.setattr(progress, "print_above_bars", self._take)

    def _take(self, line):
        with self._more:
            self.lines.append(line)
            self._more.notify_all()

    def wait(self):
        with self._more:
            before = len(self.lines)
            assert self._more.wait_for(lambda: len(self.lines) > before, 60)


@pytest.fixture
def lines(monkeypatch):
    """All lines, which come at once and not after a minute."""
    monkeypatch.setattr(progress, "_PAUSE_S", 0.01)
    return Lines(monkeypatch)


def test_it_says_nothing_where_it_is_short_and_there_is_no_terminal(folder, capfd):
    classifier = Classifier(folder)
    capfd.readouterr()
    classifier.train(CONFIG, FitContext(), lambda: 1.0)
    assert capfd.readouterr() == ("", "")


def test_it_has_a_line_a_minute_within_an_epoch_too(folder, lines, tmp_path):
    classifier = Classifier(folder, clock=Clock(40))
    classifier.on_step[3] = lines.wait
    classifier.on_step[5] = lines.wait
    classifier.train(
        CONFIG, FitContext(checkpoints=tmp_path), lambda: 0.5, title="tool2vec"
    )
    assert any(
        re.fullmatch(
            r"tool2vec: step 2 of 12, 60 s a step, recall@5 0\.5, about 10 min left, "
            "nothing is kept yet",
            line,
        )
        for line in lines.lines
    )
    assert any(
        re.search(r"step 4 of 12, 50 s .*, step 3 is kept", line)
        for line in lines.lines
    )


def test_a_validation_of_minutes_has_its_lines_too(folder, lines):
    def validate():
        lines.wait()
        return 0.5

    Classifier(folder).train(CONFIG, FitContext(), validate)
    assert lines.lines[0] == "train: step 0 of 12, nothing is kept yet"


def test_it_says_which_fit_it_is_in(folder, lines):
    classifier = Classifier(folder)
    classifier.on_step[1] = lines.wait
    context = FitContext(of="held-out part 1 of 2, for refiner")
    classifier.train(CONFIG, context, title="tool2vec")
    assert lines.lines[0].startswith(
        "tool2vec, held-out part 1 of 2, for refiner: step 0 of 12"
    )


def test_it_says_from_which_step_it_goes_on(folder, lines, tmp_path):
    context = FitContext(checkpoints=tmp_path)

    def stop():
        raise KeyboardInterrupt

    first = Classifier(folder, clock=Clock(120))
    first.on_step[7] = stop
    with pytest.raises(KeyboardInterrupt):
        first.train(CONFIG, context)
    Classifier(folder).train(CONFIG, context)
    assert "train: goes on from step 6 of 12" in lines.lines
