"""What keeping a training costs: how often it is saved, how long that takes, and its share.

    python benchmarks/training/checkpoints.py FOLDER --minutes 10

FOLDER is a dataset of type `jsonl`; the default encoder is fine-tuned on its train queries until
the first save after so many minutes.
"""

import argparse
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.datasets import DATASETS
from toolbank.retrievers import RETRIEVERS, create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.training import callbacks as saving


@contextmanager
def noted_saves(minutes):
    """Tell each save; after the minutes the next one ends the training. Gives all of them."""
    saves = []
    began = time.monotonic()
    timed = saving.Saving.timed

    @contextmanager
    def note(self, step):
        begun = time.monotonic()
        with timed(self, step):
            yield
        now = time.monotonic()
        saves.append(now - begun)
        print(f"step {step:4} at {now - began:6.0f} s: {now - begun:.2f} s", flush=True)
        if now - began > 60 * minutes:
            raise KeyboardInterrupt

    saving.Saving.timed = note
    try:
        yield saves
    finally:
        saving.Saving.timed = timed


def read_bank(folder):
    kind = DATASETS.find("jsonl", "benchmark")
    read = kind.read(kind.config.model_validate({"type": "jsonl", "path": folder}))
    train = tuple(query for query in read.queries if query.split == "train")
    return Bank(tuple(read.tools), train)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    config = RETRIEVERS.find("tool2vec", "benchmark").config.model_validate(
        {"type": "tool2vec", "training": {"epochs": 100, "batch_size": 32}}
    )
    bank = read_bank(given.folder)
    with tempfile.TemporaryDirectory() as name, noted_saves(given.minutes) as saves:
        begun = time.monotonic()
        with suppress(KeyboardInterrupt):
            create_retriever(config).fit(bank, FitContext(checkpoints=Path(name)))
        took = time.monotonic() - begun
    spent = sum(saves)
    print(
        f"{took:.0f} s, {len(saves)} saves, {spent:.1f} s, {100 * spent / took:.2f} %"
    )


if __name__ == "__main__":
    main()
