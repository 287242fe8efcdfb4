"""Pair the attempts of two runs that were offered the same candidate set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_attempts, read_queries
from toolbank.bank.split import find_version
from toolbank.evaluation.figures import FEWEST
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.requests.write.sampling import make_offers
from toolbank.run.catalogue import find_sets, keep_prompts, read_catalogue
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder

if TYPE_CHECKING:
    from toolbank.bank.records import AttemptRecord

_Key = tuple[frozenset[str], int]
"""A candidate set, and how often it was offered before."""


@dataclass(frozen=True)
class AttemptPairs:
    """Pairs of attempts of two runs with the same candidate set; without any, `reason` says why."""

    pairs: tuple[tuple[AttemptRecord, AttemptRecord], ...] = ()
    reason: str = ""

    def match_requests(self) -> dict[str, str]:
        """Map the id of each request to that of the other run's request for the same set."""
        return {
            one.query_id: other.query_id
            for one, other in self.pairs
            if one.query_id and other.query_id
        }


def pair_attempts(first: Path, second: Path) -> AttemptPairs:
    """Pair the attempts of two places that are runs.

    Less than half of the attempts of the smaller run, or fewer than ten pairs, are no pairs: the
    runs then differ in seed, tools or sampling.
    """
    try:
        found = [_read_attempts(place) for place in (first, second)]
    except InputError as error:
        return AttemptPairs(reason=str(error))
    one, other = found
    pairs = tuple((attempt, other[key]) for key, attempt in one.items() if key in other)
    if len(pairs) < max(FEWEST, min(len(one), len(other)) / 2):
        return AttemptPairs(
            reason=f"Only {len(pairs):,} of {len(one):,} attempts of A and {len(other):,} of B "
            "have the same candidate set. Runs with the same seed, tools and sampling share them."
        )
    return AttemptPairs(pairs)


def _read_attempts(place: Path) -> Mapping[_Key, AttemptRecord]:
    """Read the attempts of a run by their candidate sets, which follow from recipe and number.

    Raises:
        InputError: the place is no run with candidate sets, or they are no longer known.
    """
    folder = RunFolder(place)
    path = folder.bank / "attempts.parquet"
    if not is_run_folder(place) or not path.is_file():
        raise InputError(f"{place.name} is not a run that has generated requests")
    recipe = keep_prompts(load_recipe(str(folder.recipe)).recipe, folder)
    recipe = find_sets(recipe, folder)
    config, catalogue = recipe.generate, read_catalogue(folder)
    versions = [*(one.tools for one in catalogue.earlier), catalogue.tools]
    offers = [make_offers(tools, config, recipe.calls_seed) for tools in versions]
    if not (kind := find_engine(config)).asks_model:
        context = EngineContext(tools=catalogue.tools, seed=recipe.calls_seed)
        if own := kind.create(config, context).offers:
            offers = [own] * len(versions)
    tools_of = {
        one.id: one.tools for one in read_queries(folder.bank / "queries.parquet")
    }
    seen: Counter[frozenset[str]] = Counter()
    found: dict[_Key, AttemptRecord] = {}
    for attempt in read_attempts(path):
        number = attempt.attempt
        offer = offers[find_version(number, catalogue.earlier)].offer(number)
        tools = frozenset(offer.tools if offer else ())
        if not tools.issuperset(tools_of.get(attempt.query_id or "", ())):
            raise InputError(
                f"The candidate sets of {place.name} are not known: another version sampled them"
            )
        found[tools, seen[tools]] = attempt
        seen[tools] += 1
    return found
