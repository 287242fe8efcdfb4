"""What is kept of a training that was stopped, while other settings of it are tried."""

import re

import pytest

from tests.training.small_run import write_recipe
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InterruptedByUserError
from toolbank.training import callbacks as saving
from toolbank.training.trainers import TrainerBase


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Fit with a learning rate, each step being saved, and stop in an epoch if one is given."""
    training = {"epochs": 2, "batch_size": 16}
    tool2vec = {"type": "tool2vec", "encoder": {}, "training": training}
    path = str(write_recipe(tmp_path, retrievers=[tool2vec]))
    monkeypatch.setattr(saving, "_PAUSE_S", 0.0)
    monkeypatch.setattr(saving, "_SHARE", float("inf"))

    def fit(rate, stop_in=None):
        def begin(trainer, number):
            if number == stop_in:
                raise KeyboardInterrupt

        recipe = load_recipe(path, [f"retrievers.0.training.learning_rate={rate}"])
        with monkeypatch.context() as patch:
            if stop_in is None:
                run_recipe(recipe, tmp_path / "run", until="retrievers")
                return
            patch.setattr(TrainerBase, "begin_epoch", begin)
            with pytest.raises(InterruptedByUserError):
                run_recipe(recipe, tmp_path / "run", until="retrievers")

    return fit


def kept(folder):
    return {path.name for path in folder.glob("run/checkpoints/tool2vec/*")}


def test_a_training_goes_on_after_another_setting_was_tried(run, tmp_path, capfd):
    run(1e-3, stop_in=1)
    run(2e-3, stop_in=1)
    capfd.readouterr()
    run(1e-3)
    assert re.search(r"tool2vec: goes on from step \d+ of", capfd.readouterr().err)
    assert not (tmp_path / "run/checkpoints").exists()


@pytest.mark.slow
def test_of_many_settings_those_tried_last_are_kept(run, tmp_path):
    tried = []
    for rate in (1e-3, 2e-3, 3e-3, 4e-3):
        run(rate, stop_in=1)
        tried += kept(tmp_path) - set(tried)
    assert kept(tmp_path) == set(tried[1:])
    # One that nothing was saved of takes no other's place.
    run(5e-3, stop_in=0)
    run(6e-3, stop_in=1)
    assert set(tried[2:]) < kept(tmp_path)
