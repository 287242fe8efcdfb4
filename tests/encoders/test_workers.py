import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import psutil
import pytest
from pydantic import ValidationError

from tests.tiny_models import tiny_encoder
from toolbank.config.base import shape
from toolbank.encoders import load_encoder
from toolbank.encoders.model import SentenceEncoder, load_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.encoders.workers import check_workers
from toolbank.system import extras
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingConfig

WORDS = "rain song mail park road room door money week city"
TEXTS = [" ".join(words) for words in product(WORDS.split(), repeat=4)][:4_500]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny_encoder(tmp_path_factory.mktemp("tiny")))


def test_workers_need_a_cluster_and_make_no_result_stale():
    here, there = SentenceConfig(), SentenceConfig(executor="ray", workers=4)
    assert shape(here) == shape(there)
    reported = TrainingConfig(report_to=("tensorboard",))
    assert shape(TrainingConfig()) == shape(reported)
    with pytest.raises(ValidationError, match="executor: ray"):
        SentenceConfig(workers=2)


def test_without_ray_it_is_told_how_to_install_it(monkeypatch, folder):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    require = "toolbank.system.cluster.require_library"
    monkeypatch.setattr(require, extras.require_library)
    config = SentenceConfig(model=folder, executor="ray")
    for refuse in (check_workers, lambda one: load_encoder(one).encode_queries(TEXTS)):
        with pytest.raises(InputError, match=r"encoder\.executor needs ray.*\[ray\]"):
            refuse(config)


def test_few_texts_and_an_encoder_made_here_start_no_cluster(monkeypatch, folder):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    config = SentenceConfig(model=folder, executor="ray", workers=2)
    here = load_encoder(SentenceConfig(model=folder))
    np.testing.assert_array_equal(
        load_encoder(config).encode_queries(TEXTS[:50]), here.encode_queries(TEXTS[:50])
    )
    tuned = SentenceEncoder(load_model(folder), config)
    assert tuned.encode_queries(TEXTS).shape == (len(TEXTS), 32)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_vectors_of_workers_are_those_of_one_process(monkeypatch, folder, workers):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = load_encoder(SentenceConfig(model=folder)).encode_queries(TEXTS)
    config = SentenceConfig(model=folder, executor="ray", workers=workers)
    there = load_encoder(config).encode_queries(TEXTS)
    assert there.tobytes() == here.tobytes()


FIT = """
import sys
import numpy as np
from tests.encoders.test_workers import TEXTS
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
config = SentenceConfig(model=sys.argv[1], executor="ray", workers=2, batch_size=4)
np.save(sys.argv[2], load_encoder(config).encode_queries(TEXTS))
"""


def start_fit(folder, out):
    """A process that embeds, in a group of its own, and its workers once both are at work."""
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    process = subprocess.Popen(
        [sys.executable, "-c", FIT, folder, str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    for _ in range(600):
        if len(workers := find_workers(process.pid)) == 2:
            return process, workers
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.2)
    raise AssertionError("no workers after two minutes")


def find_workers(above):
    """The processes below one that Ray Data has made workers of."""
    found = []
    for process in psutil.Process(above).children(recursive=True):
        with suppress(psutil.Error):
            if "MapWorker(Map(_Worker))" in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


@pytest.mark.slow
def test_a_killed_worker_takes_nothing_with_it(folder, tmp_path):
    process, workers = start_fit(folder, tmp_path / "v.npy")
    os.kill(workers[0], signal.SIGKILL)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()
    here = load_encoder(SentenceConfig(model=folder, batch_size=4))
    found = np.load(tmp_path / "v.npy")
    np.testing.assert_array_equal(found, here.encode_queries(TEXTS))


@pytest.mark.slow
def test_an_interrupt_ends_workers_too(folder, tmp_path):
    process, workers = start_fit(folder, tmp_path / "v.npy")
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in said
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in workers):
            return
        time.sleep(0.1)
    raise AssertionError("a worker is left")
