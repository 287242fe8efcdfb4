"""Approximate indices beside exact search: what they cost, how fast they are, what they miss.

    python benchmarks/search/index.py TEXTS.jsonl N [N ...]

TEXTS has a text a line under `query` or `text`. Their vectors (all-MiniLM-L6-v2), mixed two by two
and jittered, are the catalogue, which is synthetic, therefore; a tenth of the texts, left out of
it, are what is asked. Of more than 300,000 only the index that is used is made. Needs
`pip install usearch faiss-cpu`. Each index is made, written, and
searched from its file, mapped into memory; candidates are ranked again by their exact cosines.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
from usearch.index import Index

from toolbank.encoders.location import find_packaged, hub_name

K, MORE, ASKED = 10, 4, 500


def embed(path):
    from sentence_transformers import SentenceTransformer

    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    texts = list(dict.fromkeys(row.get("query") or row.get("text") for row in rows))
    model = SentenceTransformer(str(find_packaged(hub_name("all-MiniLM-L6-v2"))))
    return model.encode(texts, normalize_embeddings=True, batch_size=64)


def make_catalogue(vectors, n, rng):
    made = np.empty((n, vectors.shape[1]), np.float32)
    for start in range(0, n, 50_000):
        part = made[start : start + 50_000]
        one, other = rng.integers(0, len(vectors), (2, len(part)))
        share = rng.uniform(0.6, 1, (len(part), 1)).astype(np.float32)
        noise = rng.normal(0, 0.015, part.shape).astype(np.float32)
        part[:] = share * vectors[one] + (1 - share) * vectors[other] + noise
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return made


def search_exactly(vectors, query):
    scores = vectors @ query
    best = np.argpartition(scores, -K)[-K:]
    return best[np.argsort(-scores[best])]


def by_usearch(dtype, connectivity, vectors, path):
    index = Index(
        ndim=vectors.shape[1],
        metric="ip",
        dtype=dtype,
        connectivity=connectivity,
        expansion_add=256,
    )
    index.add(np.arange(len(vectors)), vectors, threads=2)
    index.save(path)
    opened = Index.restore(path, view=True)

    def at(effort):
        opened.expansion_search = effort
        return lambda query: opened.search(query, K * MORE).keys.astype(np.int64)

    return at


def by_faiss(kind, vectors, path):
    faiss.omp_set_num_threads(2)
    index = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    order = np.random.default_rng(0).permutation(len(vectors))
    index.train(vectors[order[:200_000]])
    index.add(vectors)
    faiss.write_index(index, str(path))
    opened = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    faiss.omp_set_num_threads(1)

    def at(effort):
        faiss.extract_index_ivf(opened).nprobe = effort
        return lambda query: opened.search(query[None], K * MORE)[1][0]

    return at


def measure(what, work, asked, right, vectors):
    seconds, hit = [], []
    for query, exact in zip(asked, right, strict=True):
        began = time.perf_counter()
        near = work(query)
        near = near[near >= 0]
        best = near[np.argsort(-(vectors[near] @ query), kind="stable")[:K]]
        seconds.append(time.perf_counter() - began)
        hit.append(len(np.intersect1d(best, exact)) / K)
    p50, p95, p99 = 1000 * np.percentile(seconds[20:], [50, 95, 99])
    return f"{what:24} {p50:8.2f} {p95:8.2f} {p99:8.2f}   recall@10 {np.mean(hit):.4f}"


KINDS = (
    ("usearch, 8 bits, M 16", by_usearch, ("i8", 16), (128, 512)),
    ("usearch, 8 bits, M 32", by_usearch, ("i8", 32), (128, 256, 512)),
    ("faiss, IVF, 8 bits", by_faiss, (), (32, 64, 128, 256)),
)


def main(path, sizes):
    texts = embed(path)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(texts))
    held = max(len(texts) // 10, 1)
    asked, known = texts[order[:held]][:ASKED], texts[order[held:]]
    for n in sizes:
        vectors = make_catalogue(known, n, rng)
        print(
            f"{n:,} vectors of {len(known):,} texts; {len(asked)} asked: p50, p95, p99 in ms"
        )
        right = [search_exactly(vectors, query) for query in asked]
        print(
            measure(
                "exact",
                lambda q, v=vectors: search_exactly(v, q),
                asked,
                right,
                vectors,
            )
        )
        made = KINDS[:1] if n > 300_000 else KINDS
        for name, make, kind, efforts in made:
            if make is by_faiss:
                kind = (f"IVF{int(4 * n**0.5)},SQ8",)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "index")
                began, cpu = time.perf_counter(), time.process_time()
                at = make(*kind, vectors, file)
                took, used = time.perf_counter() - began, time.process_time() - cpu
                size = file.stat().st_size / 2**20
                print(
                    f"{name}: made in {took:.0f} s ({used:.0f} of CPU), {size:,.0f} MB"
                )
                for effort in efforts:
                    line = measure(
                        f"  effort {effort}", at(effort), asked, right, vectors
                    )
                    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(n) for n in sys.argv[2:]])
