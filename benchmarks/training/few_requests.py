"""How well tools are found that have one to three train requests each, while others have none: R@5.

    python benchmarks/training/few_requests.py FOLDER [--tools 300] [--seeds 3] [--methods tool2vec nearest]

draws tools of FOLDER (tools.jsonl, queries.jsonl) by a seed. A share of them has no train query (0, 20, 45,
80 %); each of the others has 1, 2 or 3, or half of them 1 and half of them 3. A cell gives the recall on test
queries of the tools that have train queries, and on those of the tools that have none. There is no validation
query. Queries that need several tools are not read.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import match_gold
from toolbank.bank.records import Query
from toolbank.datasets.jsonl import JsonlConfig, read_jsonl
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    FusionConfig,
    MlcConfig,
    NearestConfig,
    NnnConfig,
    ProtipConfig,
    RefinerConfig,
    Tool2VecConfig,
)

SHARES = (0.0, 0.2, 0.45, 0.8)
REQUESTS = {"1": (1,), "2": (2,), "3": (3,), "1 or 3": (1, 3)}
ENCODER = SentenceConfig(model="toolbank")
METHODS: tuple[RetrieverConfig, ...] = (
    DescriptionsConfig(encoder=ENCODER),
    Bm25Config(name="bm25-requests", requests=True),
    NearestConfig(encoder=ENCODER),
    NearestConfig(name="nearest-bm25", by="bm25"),
    Tool2VecConfig(encoder=ENCODER),
    FusionConfig(first_stage="tool2vec", beside=("bm25-requests",)),
    NnnConfig(first_stage="tool2vec"),
    MlcConfig(name="mlc-frozen", frozen=True, encoder=ENCODER),
    ProtipConfig(encoder=ENCODER),
    RefinerConfig(first_stage="tool2vec", encoder=ENCODER),
)


def draw_bank(
    folder: Path, tools: int, share: float, requests: tuple[int, ...], seed: int
) -> tuple[Bank, list[Query]]:
    """A bank of some of the tools, and a query for each of those that no train query uses."""
    found = read_jsonl(JsonlConfig(type="jsonl", path=folder))
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for query in found.queries:
        if len(query.tools) == 1:
            texts[query.tools[0]].setdefault(query.query)
    enough = [tool for tool in found.tools if len(texts[tool.name]) > 3]
    random = Random(f"{seed}:few")
    drawn = random.sample(enough, min(tools, len(enough)))
    n_used = round((1 - share) * len(drawn))
    queries, others = [], []
    for place, tool in enumerate(drawn):
        test, *train = random.sample(list(texts[tool.name]), 4)
        row = {"tools": (tool.name,), "id": f"{place}"}
        if place >= n_used:
            others.append(Query(query=test, **row))
            continue
        queries.append(Query(query=test, split="test", **row))
        for number, text in enumerate(train[: requests[place % len(requests)]]):
            own = row | {"id": f"{place}-{number}"}
            queries.append(Query(query=text, split="train", **own))
    return Bank(tuple(drawn), tuple(queries)), others


def measure(retriever: Retriever, bank: Bank, queries: list[Query]) -> float:
    """Recall@5 of queries of one tool each, in percent."""
    if not queries:
        return float("nan")
    hits, _ = retriever.search([query.query for query in queries], 5)
    wanted = np.array([[bank.index[query.tools[0]]] for query in queries])
    return 100 * float(match_gold(hits, wanted).any(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tools", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*")
    given = parser.parse_args()
    labels = [config.label for config in METHODS]
    chosen = given.methods or labels
    print(f"| requests | without | {' | '.join(chosen)} |", flush=True)
    for requests, counts in REQUESTS.items():
        for share in SHARES:
            figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for seed in range(given.seeds):
                bank, others = draw_bank(given.folder, given.tools, share, counts, seed)
                needed = {c.label for c in METHODS if c.label in chosen}
                needed |= {n for c in METHODS if c.label in needed for n in c.needs}
                fitted: dict[str, Retriever] = {}
                for config in (c for c in METHODS if c.label in needed):
                    retriever = create_retriever(config)
                    retriever.fit(bank, FitContext(seed=seed, fitted=dict(fitted)))
                    fitted[config.label] = retriever
                    used = measure(retriever, bank, list(bank.split("test")))
                    figures[config.label].append(
                        (used, measure(retriever, bank, others))
                    )
            cells = [np.mean(figures[label], axis=0) for label in chosen]
            row = " | ".join(f"{used:.1f} / {unused:.1f}" for used, unused in cells)
            print(f"| {requests} | {100 * share:.0f} % | {row} |", flush=True)


if __name__ == "__main__":
    main()
