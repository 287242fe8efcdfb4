"""One step of a run, and what its result follows from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.run.folder import RunFolder, hash_tree
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.retrievers.method import RetrieverConfig


@dataclass(frozen=True)
class Outcome:
    """What a stage says of itself when it ends, and the files that it left.

    One that is not complete is run again by the next run: some of its calls failed. `waiting`
    is not empty where it has to wait for something outside: what the user has to do, after
    which the next run goes on with it. `ended_early` says which budget is spent, and how to raise it.
    """

    message: str
    files: tuple[Path, ...]
    complete: bool = True
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: str = ""


@dataclass(frozen=True)
class Stage:
    """One step of a run; `depends` gives, as JSON, all that its result follows from.

    `refresh` brings a done stage's accounts up to date with what its result doesn't follow from,
    such as prices, and gives the files that it changed.
    """

    name: str
    depends: Callable[[], Mapping[str, Any]]
    work: Callable[[], Outcome]
    refresh: Callable[[], tuple[Path, ...]] | None = None

    @property
    def kind(self) -> str:
        """The name without the part, such as "retrievers" of "retrievers/bm25"."""
        return self.name.partition("/")[0]


def hash_file(path: Path) -> str:
    """The SHA-256 of a file that an earlier stage left.

    Raises:
        InputError: it is not there.
    """
    if not path.is_file():
        raise InputError(f"{path}: not there. Run the stages before this one first.")
    return sha256_file(path)


def bank_hashes(folder: RunFolder) -> dict[str, str]:
    """Hashes of the files that hold the bank."""
    return {
        name: hash_file(folder.bank / name)
        for name in ("tools.parquet", "queries.parquet")
    }


def model_hashes(recipe: Recipe, folder: RunFolder) -> dict[str, dict[str, str]]:
    """Hashes of the files of every fitted retriever, by its label."""
    return {
        config.label: hash_tree(folder.models / config.label)
        for config in recipe.retrievers
    }


def files_read(config: RetrieverConfig, recipe: Recipe) -> list[str]:
    """Hashes of the files that a retriever, or one that it builds on, reads."""
    own = [hash_file(path) for path in config.files]
    needed = (other for other in recipe.retrievers if other.label in config.needs)
    return own + [digest for other in needed for digest in files_read(other, recipe)]
