"""How much requests and asks give on an API: Recall@5 on its development set, or on natural requests.

    python benchmarks/requests/natural.py numpy TOOLS.parquet TEXTS [--tuned] [--seeds 0 1 2]
        [--epochs 2] [--pairs query-description ...] [--natural]

fits descriptions, Tool2Vec, BM25 with requests (`words`) and the fusion of the latter two on what
development.py leaves to learn from, and tests them on what it holds out. With `--natural`, on all of
it, tested on TEXTS/natural/API.jsonl: to be run once, when all is chosen. `--tuned` fine-tunes the
encoder of Tool2Vec. `plain` is what a few lines do with the encoder as it is: the mean of a tool's
requests, drawn to its description by 2. A line a seed and method, the mean over the seeds, and its
paired difference to `plain`.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from development import ASKS_PREFIX, make_development

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_tools
from toolbank.bank.records import Ask, Query
from toolbank.datasets.jsonl import read_labelled
from toolbank.encoders.sentence import EncoderTraining
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    FusionConfig,
    Tool2VecConfig,
)

PLAIN = "plain"


def whole(bank: Bank) -> Bank:
    """All requests and asks of a development bank, to learn from."""
    held = [q for q in bank.split("test") if q.id.startswith(ASKS_PREFIX)]
    asks = tuple(
        Ask(tool=q.tools[0], kind=q.id.split("-")[1], ask=q.query) for q in held
    )
    queries = tuple(
        q.model_copy(update={"split": "train"}) for q in bank.queries if q not in held
    )
    return replace(bank, queries=queries, asks=bank.asks + asks)


def recall(found: np.ndarray, queries: tuple[Query, ...], bank: Bank) -> np.ndarray:
    """Recall@5 [n] of hits [n, 5]; a label that names no tool counts as not found."""
    wanted = [{bank.index.get(name, name) for name in q.tools} for q in queries]
    return np.array(
        [len(w & set(row)) / len(w) for w, row in zip(wanted, found, strict=True)]
    )


def interval(values: np.ndarray) -> str:
    """The mean of values [n] in percent, and its 95 % bootstrap interval."""
    n = len(values)
    draws = np.random.default_rng(0).integers(0, n, (2000, n))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return f"{100 * values.mean():5.1f} ({100 * low:.1f} to {100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=["numpy", "pandas", "aws"])
    parser.add_argument("tools", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--pairs", nargs="+", default=["query-description"])
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--natural", action="store_true")
    given = parser.parse_args()
    bank = make_development(given.api, read_tools(given.tools), given.texts)
    queries = bank.split("test")
    if given.natural:
        bank = whole(bank)
        queries = read_labelled(given.texts / "natural" / f"{given.api}.jsonl").queries
    training = EncoderTraining(
        epochs=given.epochs,
        pairs=tuple(given.pairs),
        learning_rate=given.rate,
        max_length=given.length,
    )
    configs: list[RetrieverConfig] = [
        DescriptionsConfig(),
        Tool2VecConfig(name=PLAIN, centre=False),
        Tool2VecConfig(training=training if given.tuned else None),
        Bm25Config(name="words", requests=True),
        FusionConfig(beside=("words",)),
    ]
    texts = [query.query for query in queries]
    print(
        f"{given.api}: {len(bank.split('train'))} requests, {len(bank.asks)} asks; {len(texts)} tested"
    )
    rows: dict[str, list[np.ndarray]] = {}
    for seed in given.seeds:
        fitted = {}
        for config in configs:
            start = time.perf_counter()
            retriever = create_retriever(config)
            needs = {name: fitted[name] for name in config.needs}
            retriever.fit(bank, FitContext(seed=seed, fitted=needs))
            fitted[config.label] = retriever
            found, _ = retriever.search(texts, 5)
            rows.setdefault(config.label, []).append(recall(found, queries, bank))
            print(
                f"seed {seed} {config.label:14s}{100 * rows[config.label][-1].mean():5.1f}"
                f"  {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    plain = np.mean(rows[PLAIN], axis=0)
    for label, of_seeds in rows.items():
        each = np.mean(of_seeds, axis=0)
        print(f"mean {label:14s}{interval(each)}  to plain {interval(each - plain)}")


if __name__ == "__main__":
    main()
