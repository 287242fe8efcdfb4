"""BM25 over very many tools: how long a search takes, and the index to be made.

    python benchmarks/search/words.py SERVERS.json REQUESTS.jsonl N [N ...]

Texts beyond the real ones are those with words of others mixed in: see catalogue.py.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from catalogue import make_tools, read_tools

from toolbank.bank.records import Tool
from toolbank.retrievers.base import all_words
from toolbank.retrievers.bm25 import Bm25Retriever
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.settings import Bm25Config
from toolbank.search.finder import Finder


def main(servers, requests, *sizes):
    real = list({tool["name"]: tool for tool in read_tools(servers)}.values())
    asked = [
        json.loads(line).get("query")
        for line in Path(requests).read_text().splitlines()
    ]
    asked = [text for text in asked if text]
    for n in map(int, sizes):
        tools = [
            Tool(name=one["name"], description=one["description"])
            for one in make_tools(real, n)
        ]
        began = time.perf_counter()
        retriever = Bm25Retriever(Bm25Config())
        retriever.tools = tuple(tool.name for tool in tools)
        retriever.documents = tuple(map(all_words, tools))
        retriever.index = LexicalIndex.of(retriever.documents)
        made = time.perf_counter() - began
        finder = Finder({"bm25": retriever}, tools, packed=True)
        seconds = []
        for query in asked:
            began = time.perf_counter()
            finder.answer(query, 5)
            seconds.append(time.perf_counter() - began)
        p50, p95, p99 = 1000 * np.percentile(seconds[5:], [50, 95, 99])
        print(
            f"{n:,} tools: {p50:.1f} {p95:.1f} {p99:.1f} ms; made in {made:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
