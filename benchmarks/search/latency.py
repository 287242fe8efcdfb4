"""How long a search takes: cold, and one at a time, beside its encoder alone and other searchers.

    python benchmarks/search/latency.py FINDER [FINDER ...]

Each is a packed finder with several retrievers, `descriptions` among them. Requests are those of the
quickstart's natural set, each with a number behind it, so that no vector is remembered. Needs
`.[dev-slow]` and faiss-cpu.
"""

import asyncio
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import bm25s
import numpy as np

from toolbank.encoders import load_encoder
from toolbank.search.finder import Finder

N = 300
ROWS = Path(__file__).parents[2] / "recipes/data/numpy-natural.jsonl"


def requests():
    texts = [json.loads(line)["query"] for line in ROWS.read_text().splitlines()]
    texts = [text for text in texts if text]
    return [f"{texts[n % len(texts)]} ({n})" for n in range(N)]


def show(what, seconds):
    p50, p95, p99 = 1000 * np.percentile(seconds, [50, 95, 99])
    print(f"  {what:34} {p50:7.2f} {p95:7.2f} {p99:7.2f}", flush=True)


def measure(work, salt):
    return measure_in_turns([work], salt)[0]


def measure_in_turns(works, salt):
    """Seconds [works, requests]: each request is put to one after the other."""
    seconds = []
    for request in requests():
        seconds.append([])
        for number, work in enumerate(works):
            began = time.perf_counter()
            work(f"{request} {salt} {number}")
            seconds[-1].append(time.perf_counter() - began)
    return np.array(seconds[20:]).T


def encoder_of(retriever):
    for one in (retriever, *retriever.built_on.values()):
        encoder = getattr(one.config, "encoder", None)
        if encoder is not None and encoder.type == "onnx":
            return load_encoder(encoder)
    return None


def measure_others(tools, vectors):
    texts = [f"{tool.name} {tool.summary} {tool.description}" for tool in tools]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def by_bm25s(text):
        words = bm25s.tokenize(text, show_progress=False, return_ids=False)
        return index.retrieve(words, k=5, show_progress=False)

    show("bm25s", measure(by_bm25s, "b"))
    import faiss
    from sentence_transformers import SentenceTransformer

    from toolbank.encoders.location import find_packaged, hub_name

    model = SentenceTransformer(str(find_packaged(hub_name("all-MiniLM-L6-v2"))))
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)

    def by_faiss(text):
        return flat.search(model.encode([text], normalize_embeddings=True), 5)

    show("sentence-transformers and faiss", measure(by_faiss, "f"))
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools.base import Tool

    listed = [
        Tool(name=one.name, description=one.description, parameters=one.parameters)
        for one in tools
    ]
    transform, loop = BM25SearchTransform(), asyncio.new_event_loop()

    def by_fastmcp(text):
        return loop.run_until_complete(transform._search(listed, text))

    show("FastMCP's BM25", measure(by_fastmcp, "m"))


def main(folders):
    for folder in map(Path, folders):
        command = [
            sys.executable,
            "-m",
            "toolbank",
            "search",
            str(folder),
            "mean of a column",
        ]
        cold = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            cold.append(time.perf_counter() - began)
        finder = Finder.open(folder)
        told = f"first hit from a cold start {np.median(cold):.2f} s (median of 5)"
        print(f"{folder}: {len(finder.tools):,} tools; {told}")
        print(f"  {'ms':34} {'p50':>7} {'p95':>7} {'p99':>7}")
        for label, retriever in finder.retrievers.items():
            encoder = encoder_of(retriever)
            answer = partial(finder.answer, retriever=label)
            if encoder is None:
                show(label, measure(answer, label))
                continue
            alone, found = measure_in_turns(
                [lambda text, e=encoder: e.encode_queries([text]), answer], label
            )
            show(f"{label}: its encoder alone", alone)
            show(label, found)
            above = 1000 * np.median(found - alone)
            print(f"  {label + ': above its encoder':34} {above:7.2f}", flush=True)
        measure_others(finder.tools, finder.retrievers["descriptions"].vectors)


if __name__ == "__main__":
    main(sys.argv[1:])
