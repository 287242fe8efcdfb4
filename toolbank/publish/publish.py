"""A publication: all of its files, in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from toolbank.datasets.export import Kind, replacing
from toolbank.datasets.published import DATA
from toolbank.publish.card import Contents, write_card
from toolbank.publish.data import write_data
from toolbank.publish.qrels import write_qrels
from toolbank.publish.recipe import write_prompts, write_recipe
from toolbank.publish.retriever import write_retriever
from toolbank.publish.shards import SHARD_ROWS
from toolbank.publish.story import read_story
from toolbank.run.assets import using_assets
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refuse_outdated
from toolbank.system.errors import InputError

MARK = "toolbank-published.json"
"""Names in a publication's folder what it has left there."""

PUBLICATION = Kind("publication", MARK, "--to", whole=True)

_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}")


@dataclass(frozen=True)
class Wanted:
    """What is published of a run.

    `licence` is an identifier as hubs have it, such as cc-by-4.0; "" where none is stated.
    `retriever` is the label of one, or "" for the one that `toolbank search` takes.
    """

    run: RunFolder
    licence: str = ""
    retriever: str = ""
    shard_rows: int = SHARD_ROWS

    def check(self) -> None:
        """Refuse what can't be published, before anything is written.

        Raises:
            InputError: there is no bank, the next run changes its requests or their labels, or the
                licence is no identifier.
        """
        if self.licence and not _LICENCE.fullmatch(self.licence):
            raise InputError(
                f"--license {self.licence!r}: not the identifier of a licence. Give one as hubs "
                "have it, such as apache-2.0, mit, cc-by-4.0 or other."
            )
        if not (self.run.bank / "bank.json").is_file():
            raise InputError(
                f"{self.run.path}: no bank in it yet. First: toolbank run {self.run.path}"
            )
        refuse_outdated(self.run)


def demand_not_read(wanted: Wanted, folder: Path) -> None:
    """Refuse to write over what the run's bank was read from.

    Raises:
        InputError: the folder is that of the run's dataset.
    """
    recipe = load_recipe(str(wanted.run.recipe)).recipe
    path = getattr(recipe.dataset, "path", None)
    if path is not None and path.resolve() == folder.resolve():
        raise InputError(
            f"{folder}: {wanted.run.path} has its dataset from there, which would be lost. Give another "
            "folder with --to."
        )


def publish_to_folder(wanted: Wanted, folder: Path) -> Contents:
    """Write a run's bank, its card and its retriever to a folder; gives what they hold.

    - data/{tools,train,validation,test}-*.parquet, and asks and labels where there are any
    - corpus.jsonl, queries.jsonl, qrels/test.tsv, qrels/test.trec: the test as BEIR and TREC
      have it
    - models/, recipe.yaml, README.md
    - prompts/ and crawlers/: the files that the run was made with

    All is written before it takes the place of an earlier publication. The same run, the same
    bytes.

    Raises:
        InputError: something can't be published, or the folder holds what no publication left.
        ToolbankError: the folder can't be written to.
    """
    with replacing(folder, alone=True, kind=PUBLICATION) as made:
        return write_publication(wanted, made)


def write_publication(wanted: Wanted, folder: Path) -> Contents:
    """Write all files of a publication but its mark to an empty folder.

    Raises:
        InputError: as of `publish_to_folder`.
    """
    wanted.check()
    run = wanted.run
    file = load_recipe(str(run.recipe))
    recipe = file.recipe
    with using_assets(file, run):
        story = read_story(recipe, run)
        write_prompts(recipe, run, folder)
    shown = write_retriever(recipe, run, folder, wanted.retriever, story.stale_models)
    rows = write_data(run.bank, folder / DATA, wanted.shard_rows)
    judged = write_qrels(folder / DATA, folder)
    prompts = Path("prompts") if (folder / "prompts").is_dir() else None
    own = recipe.model_copy(update={"prompts": prompts})
    (folder / "recipe.yaml").write_text(write_recipe(own), encoding="utf-8")
    contents = Contents(story, rows, judged, shown, wanted.licence)
    (folder / "README.md").write_text(write_card(contents), encoding="utf-8")
    return contents
