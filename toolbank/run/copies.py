"""Find the requests of a run that copy others, and keep them out of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.base import shape
from toolbank.encoders import load_encoder
from toolbank.encoders.location import encoder_identity
from toolbank.requests.judge.summary import find_files
from toolbank.run.stage import hash_file

if TYPE_CHECKING:
    from toolbank.bank.records import Query
    from toolbank.encoders.config import EncoderConfig
    from toolbank.requests.profile.copies import Embed
    from toolbank.run.recipe import Recipe


def find_other_files(recipe: Recipe) -> tuple[Path, ...]:
    """List the files of the sets of `profile.copies.against`.

    Raises:
        InputError: a folder has the files of no format.
    """
    places = recipe.profile.copies.against
    return tuple(path for place in places for path in find_files(place))


def make_embed(recipe: Recipe) -> Embed | None:
    """Make a function that embeds requests, and loads the encoder when it is first called."""
    encoder = recipe.plain_encoder
    if encoder is None:
        return None
    return lambda texts: load_encoder(encoder).encode_queries(texts)


def copy_encoders(recipe: Recipe) -> tuple[EncoderConfig, ...]:
    """List the encoder that finds the copies to drop, if there is one."""
    limits, encoder = recipe.profile.copies, recipe.plain_encoder
    return (encoder,) if limits.drop and limits.cosine is not None and encoder else ()


def depends_on_copies(recipe: Recipe) -> dict[str, Any]:
    """Return what the dropped copies follow from; {} if the recipe drops none."""
    limits = recipe.profile.copies
    if not limits.drop:
        return {}
    return {
        "copies": shape(limits),
        "against": [hash_file(path) for path in find_other_files(recipe)],
        "copied_by": [encoder_identity(one) for one in copy_encoders(recipe)],
    }


def drop_copies(recipe: Recipe, queries: Sequence[Query]) -> tuple[list[Query], int]:
    """Put the copies among the train queries into no split, if the recipe says so.

    Returns all queries, and the number of copies.

    Raises:
        InputError: another set can't be read, or the encoder can't be loaded.
    """
    train = [place for place, query in enumerate(queries) if query.split == "train"]
    texts = [queries[place].query for place in train]
    rows = {train[place] for place in find_dropped_texts(recipe, texts, queries)}
    kept = [
        query.model_copy(update={"split": None}) if place in rows else query
        for place, query in enumerate(queries)
    ]
    return kept, len(rows)


def find_dropped_texts(
    recipe: Recipe, texts: Sequence[str], queries: Sequence[Query]
) -> set[int]:
    """Find the places of texts that copy a held-out one of the queries or another set.

    Raises:
        InputError: as of `drop_copies`.
    """
    from toolbank.requests.profile.copies import find_dropped

    limits = recipe.profile.copies
    if not limits.drop:
        return set()
    return find_dropped(texts, queries, limits, make_embed(recipe))
