"""Check explanations against the tools of their queries, by an encoder of reasoning steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.records import Query, Tool
from toolbank.retrievers.base import title_and_summary
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.requests.write.config import ExplanationsConfig


Vectors = NDArray[np.float32]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9$])")


def faithfulness(steps: Vectors, source: Vectors) -> float:
    """Compute Faithfulness-Step (h -> s), the mean alignment of a chain's N steps, from 0 to 1.

    1/N sum_i r-align(h_i -> s), with r-align(h_i -> s) = (1 + max_j cos(h_i, s_j)) / 2. `steps`
    [n, d] and `source` [m, d] are unit vectors.
    """
    cosines = (steps @ source.T).max(axis=1)
    return float(np.clip((1 + cosines) / 2, 0, 1, dtype=np.float32).mean())


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences, at a full stop, ! or ? before a capital letter or digit."""
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return tuple(part for part in parts if part)


def check_explanations(
    queries: Iterable[Query], tools: Sequence[Tool], config: ExplanationsConfig
) -> dict[str, Any]:
    """Measure how explanations align with their requests, and find those that miss a tool.

    The sentences of an explanation are the steps of a chain, whose source is draft and query:
    `alignment` is the mean Faithfulness-Step (ROSCOE, arXiv 2212.07919), and `queries` has that of
    each query with tools that are not among the `within` tools nearest to any of its steps.

    Raises:
        InputError: the encoder can't be loaded.
    """
    from toolbank.encoders import load_encoder

    encoder = load_encoder(config.encoder)
    vectors = encoder.encode_documents([title_and_summary(tool) for tool in tools])
    places = {tool.name: place for place, tool in enumerate(tools)}
    alignments, reported, without = [], [], 0
    for query in queries:
        steps = split_sentences(query.explanation)
        if not steps:
            without += 1
            continue
        chain = encoder.encode_documents(steps)
        source = [*split_sentences(query.draft), *split_sentences(query.query)]
        alignments.append(faithfulness(chain, encoder.encode_queries(source)))
        cosines = chain @ vectors.T
        named = [places[name] for name in query.tools if name in places]
        ranks = (cosines[:, None, :] > cosines[:, named, None]).sum(axis=2)
        supported = (ranks < config.within).any(axis=0)
        missing = [tools[named[i]].name for i in np.flatnonzero(~supported)]
        if missing:
            row = {"id": query.id, "tools": missing, "alignment": alignments[-1]}
            reported.append(row)
    return {
        "encoder": config.encoder.label,
        "within": config.within,
        "explained": len(alignments),
        "without_explanation": without,
        "alignment": float(np.mean(alignments)) if alignments else None,
        "queries": reported,
    }


def describe_explanations(found: dict[str, Any]) -> list[str]:
    """Describe the queries whose explanation does not support their tools; [] if none."""
    if not found["queries"]:
        return []
    first = found["queries"][0]
    explained = count(found["explained"], "explanation", "explanations")
    return [
        f"{len(found['queries'])} of {explained} do not mention every tool of their query, such as "
        f"that of {first['id']} ({', '.join(first['tools'])}). See bank/explanations.json."
    ]
