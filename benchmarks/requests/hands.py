"""What hands hold, by sampling: tools that belong together, use of each tool, and Recall.

    python benchmarks/requests/hands.py numpy TOOLS.parquet TEXTS
    python benchmarks/requests/hands.py numpy TOOLS.parquet TEXTS --recall 2000

The first counts the hands of a deal as large as a bank of 2,000 requests takes. Two tools are put
together by a see-also list of the reference that names one of them (which `related` reads), or by a
request of TEXTS/written/API*.jsonl that needs both (which no sampling reads). A hand holds n of them
if n of its tools hang together by such pairs. The second has `rules` write banks of so many requests,
and gives Recall@5 on the development set of development.py. TOOLS.parquet is that of a crawl or a
run, as kinds and see-also lists count.
"""

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path

from development import make_development, read_rows
from natural import interval, recall

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_tools
from toolbank.bank.records import Tool, group_siblings
from toolbank.llm.journal import Journal
from toolbank.requests.write.affinity import link_tools
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.sampling import make_offers
from toolbank.requests.write.write_step import generate
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.settings import Bm25Config, FusionConfig, Tool2VecConfig

SAMPLINGS = ("uniform", "deck", "related")
HANDS = 2000
RETRIEVERS: tuple[RetrieverConfig, ...] = (
    Tool2VecConfig(),
    Bm25Config(name="words", requests=True),
    FusionConfig(beside=("words",)),
)

Pairs = set[frozenset[str]]


def main() -> None:
    given = read_arguments()
    tools = read_tools(given.tools)
    has_siblings = len(group_siblings(tools)) < len(tools)
    configs = [
        GenerateConfig(engine="rules", sampling=sampling, families=families)
        for sampling, families in product(SAMPLINGS, sorted({False, has_siblings}))
    ]
    if given.recall:
        for config in configs:
            train(given.api, tools, given.texts, config, given.recall, given.seed)
        return
    linked = {
        frozenset((tools[n].name, tools[other].name))
        for n, others in enumerate(link_tools(tools))
        for other in others
    }
    written = read_pairs(given.api, given.texts)
    print(
        f"{given.api}: {len(tools)} tools; pairs {len(linked)} linked, {len(written)} written"
    )
    for config in configs:
        offers = make_offers(tools, config, given.seed)
        hands = [offers.offer(n).tools for n in range(HANDS)]
        print(
            f"{describe(config):20s}"
            f" linked {share_of_hands(hands, linked)}"
            f" written {share_of_hands(hands, written)}"
            f" either {share_of_hands(hands, linked | written)}"
            f" use {describe_use(hands, tools)}"
        )


def describe(config: GenerateConfig) -> str:
    return f"{config.sampling}{' families' if config.families else ''}"


def read_pairs(api: str, texts: Path) -> Pairs:
    """The pairs of tools that a written request needs together."""
    return {
        frozenset(pair)
        for path in sorted((texts / "written").glob(f"{api}*.jsonl"))
        for row in read_rows(path)
        for pair in combinations(row["tools"], 2)
    }


def share_of_hands(hands: Sequence[Sequence[str]], pairs: Pairs) -> str:
    """The percent of hands that hold at least 2, 3 and 4 tools that pairs put together."""
    largest = [max(hang_together(hand, pairs)) for hand in hands]
    shares = [sum(size >= n for size in largest) / len(hands) for n in (2, 3, 4)]
    return " ".join(f"{100 * share:5.1f}" for share in shares)


def hang_together(hand: Sequence[str], pairs: Pairs) -> Iterator[int]:
    """How many tools each part of a hand has that pairs hold together."""
    left = set(hand)
    while left:
        part, todo = set(), [left.pop()]
        while todo:
            part.add(tool := todo.pop())
            near = {other for other in left if frozenset((tool, other)) in pairs}
            left -= near
            todo += near
        yield len(part)


def describe_use(hands: Sequence[Sequence[str]], tools: Sequence[Tool]) -> str:
    """The fewest, mean and most hands that a tool is in, and the Gini coefficient."""
    counts = Counter(name for hand in hands for name in hand)
    uses = sorted(counts[tool.name] for tool in tools)
    weighed = sum(rank * use for rank, use in enumerate(uses, 1))
    gini = 2 * weighed / (len(uses) * sum(uses)) - (len(uses) + 1) / len(uses)
    return f"{uses[0]} {statistics.fmean(uses):.1f} {uses[-1]} Gini {gini:.2f}"


def train(
    api: str,
    tools: Sequence[Tool],
    texts: Path,
    config: GenerateConfig,
    queries: int,
    seed: int,
) -> None:
    """Print Recall@5 of what a bank of so many requests by `rules` trains."""
    config = config.model_copy(update={"queries": queries})
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "journal.sqlite") as journal,
    ):
        made = generate(tools, config, domain=api, seed=seed, journal=journal)
    trained = tuple(q.model_copy(update={"split": "train"}) for q in made.value.queries)
    uses = Counter(name for query in trained for name in query.tools)
    print(
        f"{describe(config):20s} {len(trained)} requests of {made.value.counts['attempts']} attempts; "
        f"{sum(uses.values()) / len(trained):.2f} tools a request; "
        f"{sum(tool.name not in uses for tool in tools)} tools without",
        flush=True,
    )
    info = {"generate": made.value.info, "ordered": True}
    bank = Bank(tuple(tools), trained, info)
    development = make_development(api, tuple(tools), texts).split("test")
    fitted: dict[str, Retriever] = {}
    for retriever_config in RETRIEVERS:
        retriever = create_retriever(retriever_config)
        needs = {name: fitted[name] for name in retriever_config.needs}
        retriever.fit(bank, FitContext(seed=seed, fitted=needs))
        fitted[retriever_config.label] = retriever
        found, _ = retriever.search([query.query for query in development], 5)
        each = interval(recall(found, development, bank))
        print(f"  {retriever_config.label:9s} {each}", flush=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=["numpy", "pandas", "aws"])
    parser.add_argument("tools", type=Path, help="the tools.parquet of a crawl or run")
    parser.add_argument("texts", type=Path, help="the folder of written/ and asks/")
    parser.add_argument("--recall", type=int, metavar="REQUESTS", help="of such banks")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
