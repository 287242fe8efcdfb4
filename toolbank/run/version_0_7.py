"""Continue a run folder of version 0.7.0, which stored fewer hashes of assets, and no grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolbank.bank.bank import read_labels
from toolbank.config.assets import Asset, AssetFolders, looking_in
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe

_HASH = re.compile(r"^# ([^:\n]+/[^:\n]+): sha256 ([0-9a-f]{64})$", re.MULTILINE)


def read_asset_hashes(recipe: Path) -> dict[str, str]:
    """Read the hashes of assets, by title, from the comments of a run's recipe.yaml."""
    with suppress(OSError, ValueError):
        return dict(_HASH.findall(recipe.read_text(encoding="utf-8")))
    return {}


class _StageLike(Protocol):
    """A stage, whose module imports this one."""

    @property
    def is_done(self) -> bool:
        """Whether its files are complete and current."""

    def all_assets(self) -> tuple[Asset, ...]:
        """Find its assets."""


def find_assets(
    stage: _StageLike, folders: AssetFolders, find: Callable[[str], Iterable[Path]]
) -> AssetFolders:
    """Add the assets of a stage that no comment lists: those with which the stage is done.

    `find` finds the files of a title. If the stage is done with none, the first ones count.
    """
    with looking_in(folders), suppress(InputError):
        titles = [asset.title for asset in stage.all_assets()]
        for title in (title for title in titles if title not in folders.kept):
            tries = [
                replace(folders, kept={**folders.kept, title: path})
                for path in find(title)
            ]
            for one in tries:
                with looking_in(one):
                    if stage.is_done:
                        return one
            folders = tries[0] if tries else folders
    return folders


def has_unstored_grades(folder: RunFolder) -> bool:
    """Return whether the labels of a run are from grades that are not in grades.parquet."""
    return (
        not folder.grades.exists()
        and folder.verified.is_file()
        and "agreement" in read_json(folder.verified)
    )


def read_verified(folder: RunFolder) -> dict[str, Any]:
    """Read verify.json, if there is one; `set_aside` comes from the labels if it is missing."""
    from toolbank.requests.verify.gradings import find_set_aside

    if not folder.verified.is_file():
        return {}
    labels = read_labels(folder.bank / "labels.parquet")
    content: dict[str, Any] = read_json(folder.verified)
    return {"set_aside": find_set_aside(labels)} | content


def store_grades(folder: RunFolder, recipe: Recipe) -> None:
    """Store the grades that are only in labels.parquet and the journal.

    The grades of files are a person's, unless the recipe says that a model gave those of its file.

    Raises:
        InputError: the folder's labels, verify.json or bank cannot be read.
        ToolbankError: its journal cannot be read.
    """
    from toolbank.requests.verify.gradings import read_earlier_gradings, write_gradings

    labels = folder.bank / "labels.parquet"
    if not has_unstored_grades(folder) or not labels.is_file():
        return
    # Nobody knows who gave labels that were edited; they move to replaced/.
    if labels in folder.changed_files("verify"):
        return
    config = recipe.verify
    is_model = config is not None and config.grader == "model"
    models = {config.replies.name} if config and is_model and config.replies else set()
    gradings, files = read_earlier_gradings(
        labels, folder.verified, folder.journal, models
    )
    if gradings:
        write_gradings(folder.grades, gradings)
    for name in files:
        print_message(
            f"{folder.grades}: the grades of {name} are stored as a person's, because version 0.7.0 "
            "did not store who gave them. If a model gave them, repeat this command on a copy of "
            "the folder from before it, with --set verify.grader=model."
        )
