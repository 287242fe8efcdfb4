"""Texts in groups of those that ask for the like."""

from __future__ import annotations

from functools import lru_cache

from toolbank.encoders.base import EncoderConfig

_GROUPINGS_AT_HAND = 8


@lru_cache(_GROUPINGS_AT_HAND)
def group_texts(
    texts: tuple[str, ...], encoder: EncoderConfig, most: int, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Positions of texts by group: `most` groups, or fewer where fewer texts differ.

    Raises:
        InputError: the encoder can't be had or read.
    """
    from toolbank.encoders import load_encoder
    from toolbank.encoders.base import cluster

    vectors = load_encoder(encoder).encode_queries(texts)
    of = cluster(vectors, most, seed).tolist()
    return tuple(
        tuple(place for place, one in enumerate(of) if one == group)
        for group in range(max(of) + 1)
    )
