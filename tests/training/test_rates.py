"""What this machine keeps of how fast it trains."""

import platform
from dataclasses import replace
from datetime import date

import pytest

from toolbank.system.outputs import cache_folder
from toolbank.training import rates
from toolbank.training.config import PlannedTraining, TrainingConfig, count_steps
from toolbank.training.rates import Rate, add_up, read_rates, write_rate

PLANNED = PlannedTraining("mlc", "labels", "bert, 6 layers of 384", TrainingConfig(), 9)
RATE = Rate(2.5, 1_900_000_000, date(2026, 11, 20))


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """The user's folder of caches, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def other(**training):
    return PlannedTraining(
        "mlc", "labels", PLANNED.network, TrainingConfig(**training), 9
    )


def test_what_was_measured_holds_for_trainings_like_it():
    assert not read_rates(PLANNED)
    write_rate(PLANNED, RATE)
    assert read_rates(PLANNED) == [RATE]
    assert read_rates(other(epochs=7, learning_rate=1e-3)) == [RATE]
    assert read_rates(PLANNED.within("held-out part 1 of 2, for refiner")) == [RATE]


@pytest.mark.parametrize(
    "training",
    [{"batch_size": 8}, {"max_length": 64}, {"accumulation": 2}, {"precision": "bf16"}],
)
def test_and_not_for_others(training, monkeypatch):
    write_rate(PLANNED, RATE)
    assert not read_rates(other(**training))


def test_nor_for_other_threads_or_another_network(monkeypatch):
    write_rate(PLANNED, RATE)
    large = PlannedTraining(
        "mlc", "labels", "bert, 12 layers of 768", TrainingConfig(), 9
    )
    assert not read_rates(large)
    monkeypatch.setenv("OMP_NUM_THREADS", "13")
    assert not read_rates(PLANNED)


def test_nor_for_another_machine_that_shares_the_home_folder(monkeypatch):
    write_rate(PLANNED, RATE)
    monkeypatch.setattr(platform, "node", lambda: "other-host")
    assert not read_rates(PLANNED)


def test_nor_for_another_of_different_gpus(tmp_path, monkeypatch):
    for bus, model in (("0000:01", "NVIDIA T4"), ("0000:02", "NVIDIA H200")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t {model}\nIRQ: 7\n")
    monkeypatch.setattr(rates, "_GPUS", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    write_rate(PLANNED, RATE)
    assert read_rates(PLANNED) == [RATE]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not read_rates(PLANNED)


def test_a_rate_of_no_day_is_measured_anew():
    """Of which texts it is can't be said."""
    write_rate(PLANNED, RATE)
    (path,) = cache_folder().iterdir()
    path.write_text(path.read_text().replace("2026-11-20", "some day"))
    assert not read_rates(PLANNED)


def test_a_network_of_unknown_size_has_no_rate():
    unknown = PlannedTraining("mine", "mine", "", TrainingConfig(), None)
    write_rate(unknown, RATE)
    assert not read_rates(unknown)
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"a": 1}'],
    ids=["empty", "cut", "list", "number", "no-text", "deep", "foreign"],
)
def test_a_broken_file_is_as_none_and_is_written_anew(content):
    write_rate(PLANNED, RATE)
    (path,) = cache_folder().iterdir()
    path.write_bytes(content)
    assert not read_rates(PLANNED)
    write_rate(PLANNED, RATE)
    assert read_rates(PLANNED) == [RATE]


@pytest.mark.parametrize("broken", ["7", "[7]", '[{"seconds": "fast"}]', "null"])
def test_rates_that_are_broken_cost_no_others_theirs(broken):
    write_rate(PLANNED, RATE)
    (path,) = cache_folder().iterdir()
    path.write_text(path.read_text().replace("{", f'{{"another": {broken}, ', 1))
    assert read_rates(PLANNED) == [RATE]
    write_rate(other(batch_size=8), RATE)
    assert read_rates(PLANNED) == read_rates(other(batch_size=8)) == [RATE]


@pytest.mark.parametrize("value", ["-1", "0", "NaN", "1e999", '"2"', "true", "null"])
def test_a_rate_that_is_none_is_not_taken(value):
    write_rate(PLANNED, RATE)
    (path,) = cache_folder().iterdir()
    path.write_text(path.read_text().replace("2.5", value))
    assert not read_rates(PLANNED)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ([60], "about 10 min"),
        ([60, 70], "about 10 min"),
        ([70, 12, 60], "about 2 min to 12 min"),
    ],
)
def test_times_that_are_not_alike_are_told_as_a_span(seconds, told):
    """As of a machine that did other work besides."""
    ten = replace(PLANNED, steps=10)
    for each in seconds:
        write_rate(ten, Rate(each, None))
    assert add_up([(ten, read_rates(ten))]).describe() == told


def test_a_slow_training_is_forgotten_after_five_others():
    for seconds in (90, 2, 2, 2, 2, 2):
        write_rate(PLANNED, Rate(seconds, None))
    assert {rate.seconds for rate in read_rates(PLANNED)} == {2}


def test_a_folder_that_cant_be_written_to_stops_nothing(caches):
    (caches / "toolbank").write_text("a file where the folder would be")
    write_rate(PLANNED, RATE)
    assert not read_rates(PLANNED)


@pytest.mark.parametrize(
    ("examples", "settings", "steps"),
    [
        (64, {"batch_size": 16, "epochs": 3}, 12),
        (65, {"batch_size": 16, "epochs": 3}, 15),
        (64, {"batch_size": 10, "accumulation": 2, "epochs": 3}, 12),
        (3, {"batch_size": 16, "epochs": 2.5}, 3),
        (64, {"batch_size": 16, "epochs": 0.3}, 2),
    ],
)
def test_steps_are_counted_as_they_are_done(examples, settings, steps):
    assert count_steps(examples, TrainingConfig(**settings)) == steps
