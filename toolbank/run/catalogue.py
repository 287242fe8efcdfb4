"""The catalogue folder of a run: the tools by version, and which attempts each one deals.

versions.json is written last, so that a version is there whole or not at all. A run whose tools
never changed has no such folder: its one version is bank/tools.parquet.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from toolbank.bank.catalogue import Catalogue, Version
from toolbank.bank.files import explain_foreign_file, read_tools, write_tools
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError
from toolbank.system.files import read_text, sha256_file, write_json

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.journal import Journal
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


class _Version(BaseModel):
    file: str = Field(pattern=r"^\d{4,}\.parquet$")
    first_attempt: int = Field(ge=0)


class _Versions(BaseModel):
    versions: tuple[_Version, ...] = Field(min_length=1)


def read_catalogue(folder: RunFolder) -> Catalogue:
    """The tools of a run by version.

    Raises:
        InputError: a file is missing or damaged.
    """
    listed = _read_versions(folder)
    if not listed:
        return Catalogue(read_tools(folder.bank / "tools.parquet"))
    tools = [read_tools(folder.catalogue / one.file) for one in listed]
    earlier = (
        Version(before, after.first_attempt)
        for before, (_, after) in zip(tools, pairwise(listed), strict=False)
    )
    return Catalogue(tools[-1], tuple(earlier))


def depends_on_catalogue(folder: RunFolder) -> dict[str, Any]:
    """What of the earlier versions a result follows from; nothing where there are none."""
    path = _versions_path(folder)
    return {"catalogue": sha256_file(path)} if path.is_file() else {}


def has_begun(folder: RunFolder) -> bool:
    """Whether anything was asked about the tools of a run, so that they are kept by version."""
    return folder.journal.is_file() or _versions_path(folder).is_file()


def count_begun(recipe: Recipe, folder: RunFolder, catalogue: Catalogue) -> int:
    """How many attempts may have been begun: no new version deals one of them.

    Raises:
        ToolbankError: the journal is damaged.
    """
    from toolbank.llm.journal import Journal

    if not folder.journal.is_file():
        return 0
    steps = GenerateConfig.call_steps
    with Journal(folder.journal, read_only=True) as journal:
        last = max(journal.attempts(steps), default=-1)
        failed = (one.attempt for one in journal.failures() if one.step in steps)
        begun = 1 + max(last, *failed, -1)
        return _count_sent(recipe, catalogue, journal, begun)


def add_version(
    folder: RunFolder, catalogue: Catalogue, tools: tuple[Tool, ...], begun: int
) -> None:
    """Keep these tools as the newest version, which deals attempts from number `begun` on.

    Raises:
        ToolbankError: the folder can't be written to.
    """
    grown = catalogue.followed_by(tools, begun)
    first = [0, *(version.until for version in grown.earlier)]
    rows = [
        {"file": f"{number:04d}.parquet", "first_attempt": attempt}
        for number, attempt in enumerate(first, 1)
    ]
    if not catalogue.earlier:
        write_tools(folder.catalogue / "0001.parquet", catalogue.tools)
    write_tools(folder.catalogue / f"{len(rows):04d}.parquet", tools)
    write_json(_versions_path(folder), {"versions": rows})


def _count_sent(
    recipe: Recipe, catalogue: Catalogue, journal: Journal, begun: int
) -> int:
    """As `begun`, with the attempts whose requests are on their way to an engine of rounds."""
    from toolbank.llm.accounts import CallCounts
    from toolbank.requests.write.loop import wanted_queries
    from toolbank.requests.write.sampling import Dealing
    from toolbank.requests.write.writers import find_writer

    config = recipe.generate
    kind = find_writer(config)
    if kind.fill is None:
        return begun
    filler = kind.fill(config, journal, CallCounts())
    identity = kind.identity(config, recipe.seed)
    dealing = Dealing(catalogue.tools, config, recipe.domain_name, recipe.seed)
    for number in range(begun, begun + (wanted_queries(config) or 0)):
        request = dealing.write_request(number)
        if request and filler.holds(request.key(identity)):
            begun = number + 1
    return begun


def _read_versions(folder: RunFolder) -> tuple[_Version, ...]:
    path = _versions_path(folder)
    if not path.is_file():
        return ()
    try:
        return _Versions.model_validate_json(read_text(path)).versions
    except ValidationError as error:
        raise InputError(explain_foreign_file(path, error)) from error


def _versions_path(folder: RunFolder) -> Path:
    return folder.catalogue / "versions.json"
