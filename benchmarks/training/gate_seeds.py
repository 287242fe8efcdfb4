"""How often a gate fails on a retriever that was only trained again, and on a worse one.

    python benchmarks/training/gate_seeds.py RUN RETRIEVER HITS --seeds 21

Trains a retriever of a finished run with each seed and with other validation queries. Two seeds also train on half of
the training queries, and with a fifth of their labels shuffled. HITS is a folder for the hits on
the test split; a file that is there is used again. Prints how many checks of recall@5 fail at each
tolerance: of all pairs of seeds, and of the worse retrievers against each seed.
"""

import argparse
import random
import tempfile
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.evaluation.evaluate import (
    make_figures,
    measure,
    read_hits,
    score_hits,
    search_depth,
    write_hits,
)
from toolbank.evaluation.gate import check_against, pair_up
from toolbank.evaluation.sets import held_out_set
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe

WORSE = 2
TOLERANCES = (0, 0.0025, 0.005, 0.01)


def vary(bank, kind, seed):
    """Draw the validation queries anew, and make the training queries worse."""
    test = [query for query in bank.queries if query.split == "test"]
    others = [query for query in bank.queries if query.split in ("train", "validation")]
    random.Random(f"validation {seed}").shuffle(others)
    n = len(bank.split("validation"))
    validation, train = others[:n], others[n:]
    if kind == "half":
        train = train[len(train) // 2 :]
    if kind == "shuffled":
        some, rest = train[: len(train) // 5], train[len(train) // 5 :]
        labels = [query.tools for query in some]
        random.Random(f"shuffled {seed}").shuffle(labels)
        train = rest + [
            query.model_copy(update={"tools": tools})
            for query, tools in zip(some, labels, strict=True)
        ]
    queries = [
        query.model_copy(update={"split": split})
        for split, part in (
            ("train", train),
            ("validation", validation),
            ("test", test),
        )
        for query in part
    ]
    return replace(bank, queries=tuple(queries))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("retriever")
    parser.add_argument("hits", type=Path)
    parser.add_argument("--seeds", type=int, default=21)
    given = parser.parse_args()
    run = RunFolder(given.run)
    recipe = load_recipe(str(run.recipe)).recipe
    [config] = (one for one in recipe.retrievers if one.label == given.retriever)
    bank = Bank.load(run.bank)
    test = replace(held_out_set(bank), parts={})
    given.hits.mkdir(exist_ok=True)
    trainings = [("seed", seed) for seed in range(given.seeds)]
    trainings += product(("half", "shuffled"), range(WORSE))
    found = {}
    for kind, seed in trainings:
        path = given.hits / f"{kind}-{seed}.jsonl"
        if not path.is_file():
            retriever = create_retriever(config)
            with tempfile.TemporaryDirectory() as folder:
                context = FitContext(seed=seed, checkpoints=Path(folder))
                retriever.fit(vary(bank, kind, seed), context)
            write_hits(path, [measure(retriever, test, recipe.evaluate)])
        found[kind, seed] = read_hits(path, search_depth(recipe.evaluate))
    checks = {}
    for old, new in permutations(found, 2):
        if old[0] != "seed":
            continue
        after = rescore(found[new], test, given.retriever, recipe.evaluate)
        figures = make_figures(after, recipe.evaluate, recipe.seed)
        pairing = pair_up(after, test.name, found[old], recipe.evaluate)
        [checks[old, new]] = check_against(
            pairing, [("recall", 5)], figures, "", 0, recipe.evaluate, recipe.seed
        )
    for tolerance, kind in product(TOLERANCES, ("seed", "half", "shuffled")):
        of = [
            replace(c, tolerance=tolerance)
            for (_, new), c in checks.items()
            if new[0] == kind
        ]
        failed = sum(not check.passed for check in of)
        print(f"tolerance {tolerance:<6} {kind:8} {failed:4} of {len(of)} failed")


def rescore(hits, test, label, config):
    """The values of a file of hits on the test split, which is in the same order."""
    depth = search_depth(config)
    indices = np.full((len(hits), depth), -1, np.int64)
    for row, one in enumerate(hits):
        names = [test.index[name] for name in one.hits[:depth]]
        indices[row, : len(names)] = names
    return score_hits(
        label, test, config, (indices, np.zeros(indices.shape, np.float32))
    )


if __name__ == "__main__":
    main()
