"""What a training says once it has timed its first steps."""

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.training.classifier import Classifier, Clock
from toolbank.retrievers.base import FitContext
from toolbank.training.config import PlannedTraining, TrainingConfig
from toolbank.training.rates import Rate, read_rates

# Forty steps.
CONFIG = TrainingConfig(epochs=10, batch_size=16, learning_rate=1e-3)
OWN = PlannedTraining("tool2vec", "mnrl of 2 texts", "bert, 2 layers of 32", CONFIG, 40)
HELD_OUT = OWN.within("held-out part 1 of 2, for refiner")
REFINER = PlannedTraining("refiner", "9 candidates", OWN.network, CONFIG, 100)


STATUS = Path("/proc/self/status")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    Classifier(path)
    return path


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


def train(folder, step_s, planned=(OWN,), **settings):
    classifier = Classifier(folder, clock=Clock(step_s))
    context = FitContext(planned=planned)
    classifier.train(CONFIG, context, title="tool2vec", **settings)
    return classifier


def test_it_says_the_minutes_after_ten_steps(folder, capfd):
    train(folder, 20)
    told = capfd.readouterr().err.splitlines()
    [line] = [line for line in told if "30 steps" in line]
    assert "10 min" in line


def test_it_says_those_of_held_out_fits_too(folder, capfd):
    train(folder, 20, (REFINER, OWN, HELD_OUT))
    told = capfd.readouterr().err
    # Thirty steps and forty, of 20 s each; the refiner was before it.
    assert " 23 min " in told
    assert "refiner" not in told.replace(HELD_OUT.title, "")


def test_it_names_those_whose_time_is_not_known(folder, capfd):
    train(folder, 20, (OWN, HELD_OUT, REFINER))
    told = capfd.readouterr().err
    [line] = [line for line in told.splitlines() if "not known" in line]
    assert "refiner" in line.replace(HELD_OUT.title, "")
    assert HELD_OUT.title not in line


def test_less_than_a_minute_is_not_worth_a_word(folder, capfd):
    classifier = Classifier(folder, clock=Clock(1))
    capfd.readouterr()
    classifier.train(CONFIG, FitContext(planned=(OWN,)), title="tool2vec")
    assert capfd.readouterr().err == ""


def test_the_rate_is_kept_for_later_runs(folder):
    train(folder, 20)
    [rate] = read_rates(HELD_OUT)
    assert rate.seconds == pytest.approx(20)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the memory is the GPU's")
@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc to compare with")
def test_and_how_much_memory_it_took(folder):
    train(folder, 20)
    [peak] = re.findall(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.M)
    assert read_rates(OWN)[0].memory == pytest.approx(1024 * int(peak), rel=0.1)


def test_where_the_system_tells_no_memory_it_is_not_known(folder, monkeypatch):
    """As on Windows, which has no module `resource`."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delitem(sys.modules, "toolbank.training.callbacks")
    train(folder, 20)
    assert read_rates(OWN) == [Rate(pytest.approx(20), None)]


def test_it_is_kept_of_a_training_that_is_stopped(folder):
    classifier = Classifier(folder, clock=Clock(20))

    def stop():
        raise KeyboardInterrupt

    classifier.on_step[12] = stop
    with pytest.raises(KeyboardInterrupt):
        classifier.train(CONFIG, FitContext(planned=(OWN,)), title="tool2vec")
    assert read_rates(OWN)[0].seconds == pytest.approx(20)


def test_of_a_whole_training_validations_count(folder):
    clock = Clock(20)
    classifier = Classifier(folder, clock=clock)

    def validate():
        clock.now += 40
        return 0.5

    context = FitContext(planned=(OWN,))
    classifier.train(CONFIG, context, validate, title="tool2vec")
    # Four steps an epoch; the validation before the first step is not among them.
    [rate] = read_rates(OWN)
    assert rate.seconds == pytest.approx(30)


def test_a_training_can_be_cut_to_what_is_timed(folder):
    classifier = Classifier(folder, clock=Clock(20))
    context = FitContext(planned=(OWN,), most_steps=10)
    training = classifier.train(CONFIG, context, title="tool2vec")
    assert training.steps == 10
    assert read_rates(OWN)[0].seconds == pytest.approx(20)


def test_a_cache_that_cant_be_written_stops_no_training(folder, caches, capfd):
    caches.mkdir()
    (caches / "toolbank").write_text("a file where the folder would be")
    train(folder, 20, (OWN, HELD_OUT))
    assert " 23 min " in capfd.readouterr().err
