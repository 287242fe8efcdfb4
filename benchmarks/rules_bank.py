"""How well does a bank that the rules engine wrote train a retriever?

Makes a bank with no model, fits Tool2Vec on all of it, and compares it with the tools'
descriptions on requests that people (or a language model) wrote:

    python benchmarks/rules_bank.py numpy FILE.jsonl --exclude numpy.ma numpy.rec
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.datasets.jsonl import read_labelled
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import make_figures, measure
from toolbank.evaluation.sets import make_set
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import generate
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import DescriptionsConfig, Tool2VecConfig
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource


def main() -> None:
    arguments = read_arguments()
    tools = read_package(
        PythonSource(
            package=arguments.package,
            exclude=tuple(arguments.exclude) or None,
            methods=arguments.methods,
        )
    ).tools
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "journal.sqlite") as journal,
    ):
        made = generate(
            tools,
            GenerateConfig(engine="rules", queries=arguments.queries),
            domain=arguments.package,
            seed=arguments.seed,
            journal=journal,
        )
    seconds = time.perf_counter() - started
    print(f"{len(tools)} tools, {len(made.value.queries)} queries in {seconds:.1f} s")
    print(made.value.counts)
    for query in random.Random(arguments.seed).sample(
        list(made.value.queries), arguments.show
    ):
        print(
            f"\ndraft: {query.draft}\nquery: {query.query}\ntools: {', '.join(query.tools)}"
        )
    queries = tuple(q.model_copy(update={"split": "train"}) for q in made.value.queries)
    compare(Bank(tuple(tools), queries), arguments.labelled, arguments.seed)


def compare(bank: Bank, files: list[Path], seed: int) -> None:
    """Print Recall@5 with its 95 % interval for descriptions and Tool2Vec on each file."""
    sets = [make_set(path.stem, bank, read_labelled(path).queries) for path in files]
    for config in (
        DescriptionsConfig(),
        Tool2VecConfig(centre=False),
        Tool2VecConfig(),
    ):
        retriever = create_retriever(config)
        retriever.fit(bank)
        centred = " (centred)" if getattr(config, "centre", False) else ""
        for evaluated in sets:
            measured = measure(retriever, evaluated, EvaluateConfig())
            for figure in make_figures(measured, EvaluateConfig(), seed):
                if (figure.metric, figure.k) == ("recall", 5):
                    print(
                        f"{figure.set}: {retriever.name}{centred} Recall@5 "
                        f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"
                    )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", help="an installed package, such as numpy")
    parser.add_argument("labelled", nargs="+", type=Path, help="labelled JSONL files")
    parser.add_argument("--exclude", nargs="*", default=[], help="modules to leave out")
    parser.add_argument(
        "--methods", action="store_true", help="take methods of classes too"
    )
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=10, help="queries to print")
    return parser.parse_args()


if __name__ == "__main__":
    main()
