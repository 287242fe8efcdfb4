"""How well tools are found that no train query uses, by methods that train no transformer: Recall@5.

    python benchmarks/requests/withheld.py FOLDER [--ordered] [--validation 0.1] [--share 0.2] [--seed 0]

withholds a share of the tools of FOLDER (tools.jsonl, queries.jsonl) from training, as
`split.withhold_tools` of a recipe does, and tells the recall on the test queries that need one of
them, or another without use, and on all.
"""

import argparse
from pathlib import Path

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.split import Catalogue, SplitConfig, split_dataset
from toolbank.datasets.jsonl import JsonlConfig, read_jsonl
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.settings import (
    DescriptionsConfig,
    MlcConfig,
    NearestConfig,
    NnnConfig,
    Tool2VecConfig,
)

METHODS: tuple[RetrieverConfig, ...] = (
    DescriptionsConfig(),
    NearestConfig(),
    NearestConfig(name="nearest-bm25", by="bm25"),
    Tool2VecConfig(),
    NnnConfig(),
    MlcConfig(name="mlc-frozen", frozen=True),
)


def read_bank(folder: Path, ordered: bool, split: SplitConfig, seed: int) -> Bank:
    """The dataset, with tools withheld from its train and validation queries."""
    found = read_jsonl(JsonlConfig(type="jsonl", path=folder, ordered=ordered))
    withheld = Catalogue(found.tools).draw_withheld(split, seed)
    queries = split_dataset(found.queries, split, seed, withheld)
    return Bank(tuple(found.tools), tuple(queries))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--validation", type=float, default=0.1)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    split = SplitConfig(validation=given.validation, withhold_tools=given.share)
    bank = read_bank(given.folder, given.ordered, split, given.seed)
    queries = bank.split("test")
    wanted = [{bank.index[name] for name in query.tools} for query in queries]
    used = {name for query in bank.train_queries for name in query.tools}
    unseen = np.array([not used.issuperset(query.tools) for query in queries])
    fitted: dict[str, Retriever] = {}
    for config in METHODS:
        retriever = create_retriever(config)
        retriever.fit(bank, FitContext(seed=given.seed, fitted=dict(fitted)))
        fitted[config.label] = retriever
        hits, _ = retriever.search([query.query for query in queries], 5)
        found = np.array(
            [
                100 * len(tools & set(row)) / len(tools)
                for tools, row in zip(wanted, hits.tolist(), strict=True)
            ]
        )
        print(
            f"{config.label:14s} {unseen.sum()} that need one: {found[unseen].mean():.1f}; "
            f"all {len(found)}: {found.mean():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
