"""How often a finder says that nothing fits: where nothing does, and where something would.

    python benchmarks/search/abstention.py RUN NATURAL_DIR MCP_SERVERS.json MCP_ASKS.jsonl

RUN is a finished run of the quickstart with `split.validation` of 0.2. Thresholds are chosen on
validation queries alone; requests of a domain that is asked about are never among the examples of
other domains. Beside each the plain threshold on the best cosine of Tool2Vec, at the same loss.
"""

import json
import sys
from pathlib import Path
from random import Random

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import wilson_interval
from toolbank.bank.records import McpCall, Query, Tool
from toolbank.retrievers import calibration_fit as background
from toolbank.retrievers import calibration_fit as fit
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.calibration import DEPTH, remove_hits
from toolbank.retrievers.calibration_fit import measure_reliability
from toolbank.retrievers.settings import Bm25Config, FusionConfig, Tool2VecConfig
from toolbank.search.run_search import open_finder

EVERY = background._read()


def show(what, refused):
    share, (low, high) = (
        refused.mean(),
        wilson_interval(int(refused.sum()), len(refused)),
    )
    print(
        f"  {what:48} {100 * share:5.1f} % ({100 * low:.1f} to {100 * high:.1f}), n {len(refused)}"
    )


class Asked:
    """A retriever with its calibration, and the cosine threshold beside it."""

    def __init__(self, retriever, tool2vec, bank, besides):
        background._read = lambda: tuple(
            one for one in EVERY if one.domain not in besides
        )
        self.retriever, self.tool2vec, self.bank = retriever, tool2vec, bank
        queries = bank.split("validation")
        self.calibration = fit.fit_calibration(retriever, bank, queries)
        texts = [query.query for query in queries]
        right = self.right(queries, retriever.search(texts, DEPTH))
        cosines = tool2vec.search(texts, 1)[1][:, 0]
        self.cosine = fit.choose_threshold(cosines[right[:, :5].any(axis=1)])

    def right(self, queries, hits):
        places = [[self.bank.index[name] for name in query.tools] for query in queries]
        return np.stack(
            [np.isin(row, own) for row, own in zip(hits[0], places, strict=True)]
        )

    def refused(self, texts, without=None):
        most = max(map(len, without)) if without else 0
        hits = remove_hits(self.retriever.search(texts, DEPTH + most), without)
        chances = self.calibration.chances(self.retriever, texts, hits, without)
        cosines = remove_hits(self.tool2vec.search(texts, 1 + most), without)[1][:, 0]
        return (
            chances[:, 0] < float(self.calibration.threshold),
            cosines < self.cosine,
            chances,
            hits,
        )

    def show(self, what, texts, without=None):
        ours, plain, *_ = self.refused(texts, without)
        show(what, ours)
        show(f"{what}, by the cosine alone", plain)

    def show_lost(self, what, queries):
        ours, plain, chances, hits = self.refused([query.query for query in queries])
        right = self.right(queries, hits)
        served = right[:, :5].any(axis=1)
        show(f"lost: {what}", ours[served])
        show(f"lost: {what}, by the cosine alone", plain[served])
        found = measure_reliability(
            chances[:, :DEPTH].ravel(), right[:, :DEPTH].ravel()
        )
        print(f"  calibration error on {what}: {found['error']:.3f}")


def read_natural(path, bank=None):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Query(id=str(row["id"]), query=row["query"], tools=tuple(row["tools"]))
        for row in rows
        if row["tools"] and (bank is None or set(row["tools"]) <= bank.index.keys())
    ]


def measure_numpy(run, natural):
    bank = Bank.load(run / "bank")
    queries = read_natural(natural / "numpy.jsonl", bank)
    for label in ("fusion", "tool2vec"):
        retriever = open_finder(run, label).retriever
        tool2vec = open_finder(run, "tool2vec").retriever
        for domain, others in (("aws", ["aws"]), ("pandas", ["pandas"])):
            print(f"NumPy, {label}, examples of other domains without {domain}")
            asked = Asked(retriever, tool2vec, bank, others)
            if domain == "aws":
                asked.show_lost("NumPy's test queries", bank.split("test"))
                asked.show_lost("natural NumPy", queries)
                asked.show(
                    "(a) natural NumPy, its tools taken out",
                    [query.query for query in queries],
                    fit.find_own(bank, queries),
                )
            texts = [one.query for one in read_natural(natural / f"{domain}.jsonl")]
            asked.show(f"(c) natural {domain}", texts)


def measure_mcp(servers, asks):
    listed = json.loads(servers.read_text())
    names = sorted({server["name"] for server in listed})
    gone = set(Random(0).sample(names, len(names) // 10))
    tools, seen = [], set()
    for server in listed:
        for tool in server["tools"]:
            name = f"{server['name']}/{tool['name']}"
            if name not in seen and server["name"] not in gone:
                seen.add(name)
                tools.append(
                    Tool(
                        name=name,
                        summary=tool["description"],
                        call=McpCall(source=server["name"], tool=tool["name"]),
                    )
                )
    kept, absent, draw = [], [], Random(1)
    for line in asks.read_text().splitlines():
        row = json.loads(line)
        for number, text in enumerate(row["asks"]):
            split = draw.choices(["train", "validation", "test"], [0.8, 0.1, 0.1])[0]
            if row["tool"] in seen:
                id_ = f"{row['tool']} {number}"
                kept.append(
                    Query(id=id_, query=text, tools=(row["tool"],), split=split)
                )
            elif row["tool"].partition("/")[0] in gone:
                absent.append(text)
    bank = Bank(tuple(tools), tuple(kept))
    print(f"MCP: {len(tools)} tools, {len(kept)} asks, {len(gone)} servers taken out")
    fitted = {}
    for config in (Tool2VecConfig(), Bm25Config(name="bm25-requests", requests=True)):
        fitted[config.label] = create_retriever(config)
        fitted[config.label].fit(bank)
    config = FusionConfig(first_stage="tool2vec", beside=("bm25-requests",))
    fusion = create_retriever(config)
    fusion.fit(bank, FitContext(fitted=fitted))
    for retriever in (fusion, fitted["tool2vec"]):
        print(f"MCP, {retriever.name}")
        asked = Asked(retriever, fitted["tool2vec"], bank, ["mcp"])
        asked.show_lost("MCP's test asks", bank.split("test"))
        asked.show("(b) asks of servers taken out", absent)
        seen, unseen = halve(bank)
        asked = Asked(retriever, fitted["tool2vec"], Bank(bank.tools, seen), ["mcp"])
        asked.show_lost("test asks of servers unseen by calibration", unseen)


def halve(bank):
    """The queries of half of the servers, and the test queries of the others."""
    servers = sorted({tool.name.partition("/")[0] for tool in bank.tools})
    half = set(Random(2).sample(servers, len(servers) // 2))
    seen = [q for q in bank.queries if q.tools[0].partition("/")[0] in half]
    return tuple(seen), [
        query
        for query in bank.split("test")
        if query.tools[0].partition("/")[0] not in half
    ]


if __name__ == "__main__":
    measure_numpy(Path(sys.argv[1]), Path(sys.argv[2]))
    measure_mcp(Path(sys.argv[3]), Path(sys.argv[4]))
