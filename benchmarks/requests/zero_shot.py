"""How well descriptions alone find tools that an encoder has never seen: Recall@5 on a set a line.

    python benchmarks/requests/zero_shot.py BANKS TEXTS DATA ENCODER... [--sets numpy ...] [--natural]

ENCODER is a model's name, its folder, or a folder that adapter.py has made. The sets: the development
sets of numpy, aws and pandas, or with `--natural` their natural requests, once at the end; the test
queries of DATA/ultratool, metatool (2,055 of a single tool) and toollens; and `mcp`, one ask of four for
each of the tools of TEXTS/asks/mcp.jsonl among DATA/mcp-tools. With `--tool2vec`, not descriptions alone
but a Tool2Vec of what a development set leaves to learn from, by the encoder as it is.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from development import make_development
from natural import recall, whole

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_tools
from toolbank.bank.records import Query, Tool
from toolbank.datasets.jsonl import JsonlConfig, read_jsonl, read_labelled
from toolbank.encoders.location import SETTINGS, merge_adapter
from toolbank.encoders.model import SentenceEncoder, load_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import create_retriever
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.settings import DescriptionsConfig, Tool2VecConfig

APIS = ("numpy", "aws", "pandas")
TESTS = {"ultratool": "test", "metatool": "test_single", "toollens": "test"}


def read_set(name: str, given) -> tuple[Bank, tuple[Query, ...]]:
    """A bank, and the queries that it is tested on."""
    if name in APIS:
        tools = read_tools(given.banks / name / "tools.parquet")
        bank = make_development(name, tools, given.texts)
        if given.natural:
            path = given.texts / "natural" / f"{name}.jsonl"
            return whole(bank), read_labelled(path).queries
        return bank, bank.split("test")
    if name == "mcp":
        return read_mcp(given.texts, given.data)
    config = JsonlConfig(type="jsonl", path=given.data / name, test=TESTS[name])
    found = read_jsonl(config)
    bank = Bank(tuple(found.tools), tuple(found.queries))
    return bank, bank.split("test")


def read_mcp(texts: Path, data: Path) -> tuple[Bank, tuple[Query, ...]]:
    """The tools that are asked for, and an ask for each, of the four kinds in turn."""
    servers = json.loads((data / "mcp-tools" / "servers.json").read_text())
    described = {
        f"{server['name']}/{tool['name']}": tool["description"]
        for server in servers
        for tool in server["tools"]
    }
    lines = (texts / "asks" / "mcp.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    tools = tuple(
        Tool(name=row["tool"], summary=described.get(row["tool"], "")) for row in rows
    )
    queries = tuple(
        Query(id=row["tool"], query=row["asks"][i % 4], tools=(row["tool"],))
        for i, row in enumerate(rows)
    )
    return Bank(tools), queries


def embed(bank: Bank, encoder: SentenceEncoder, config) -> DenseRetriever:
    """A retriever of an encoder that is not named in its settings."""
    retriever = create_retriever(config)
    retriever.tools, retriever.tuned = bank.tool_names, encoder
    retriever.embed_bank(bank)
    return retriever


def read_encoder(name: str) -> SentenceEncoder:
    folder = Path(name)
    if (folder / SETTINGS).is_file():
        model = load_model(SentenceConfig().model)
        merge_adapter(model[0].auto_model, folder)
        return SentenceEncoder(model, SentenceConfig())
    return SentenceEncoder(load_model(name), SentenceConfig(model=name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("banks", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--sets", nargs="+", default=[*APIS, *TESTS, "mcp"])
    parser.add_argument("--natural", action="store_true")
    parser.add_argument("--tool2vec", action="store_true")
    given = parser.parse_args()
    encoders = {name: read_encoder(name) for name in given.encoders}
    config = Tool2VecConfig() if given.tool2vec else DescriptionsConfig()
    for name in given.sets:
        bank, queries = read_set(name, given)
        told = [f"{name} ({len(bank.tools)}; {len(queries)})"]
        each = []
        for encoder in encoders.values():
            retriever = embed(bank, encoder, config)
            found, _ = retriever.search([query.query for query in queries], 5)
            each.append(recall(found, queries, bank))
            told.append(f"{100 * each[-1].mean():.1f}{differ(each)}")
        print("  ".join(told), flush=True)


def differ(each: list[np.ndarray]) -> str:
    """The paired 95 % interval of the last one's difference from the first, in points."""
    if len(each) == 1:
        return ""
    gain = each[-1] - each[0]
    draws = np.random.default_rng(0).integers(0, len(gain), (2000, len(gain)))
    low, high = 100 * np.quantile(gain[draws].mean(axis=1), [0.025, 0.975])
    return f" ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    main()
