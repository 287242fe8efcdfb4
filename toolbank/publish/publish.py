"""Write a publication to a folder or to a model hub."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbank.datasets.published import DATA
from toolbank.publish.card import Contents, describe_contents, write_card
from toolbank.publish.data import SHARD_ROWS, write_data, write_graded
from toolbank.publish.datasheet import list_facts
from toolbank.publish.from_run import (
    find_date,
    read_story,
    write_prompts,
    write_recipe,
    write_retriever,
)
from toolbank.publish.qrels import write_runs
from toolbank.publish.replies import try_reproduction, write_replies
from toolbank.run.assets import using_assets
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refuse_outdated
from toolbank.system.errors import InputError
from toolbank.system.files import write_json
from toolbank.system.folders import (
    MARK,
    FolderKind,
    hash_files,
    read_listed,
    replacing,
    write_mark,
)
from toolbank.system.hub import check_repository, explaining_hub_errors
from toolbank.system.numbers import count, size
from toolbank.system.terminal import command, confirm, print_message

PUBLICATION = FolderKind("publication", "--to", former="toolbank-published.json")

_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}")


@dataclass(frozen=True)
class PublicationParts:
    """The parts of a run to publish.

    `licence` is an identifier of hubs, such as cc-by-4.0, or "". `retriever` is a label, or "" for
    the default retriever of `toolbank search`. `replies`: with the replies of models, from which
    the bank can be made again. `authors` are named by the citation. `skip_stale`: skip results of
    an earlier state of the run; else they are refused.
    """

    run: RunFolder
    licence: str = ""
    retriever: str = ""
    shard_rows: int = SHARD_ROWS
    replies: bool = False
    authors: tuple[str, ...] = ()
    skip_stale: bool = False

    def check(self) -> None:
        """Check that the run can be published, before anything is written.

        Raises:
            InputError: there is no bank, the next run would change its requests or labels, or the
                licence is not an identifier.
        """
        if self.licence and not _LICENCE.fullmatch(self.licence):
            raise InputError(
                f"--license {self.licence!r}: not the identifier of a licence. Give one of a hub, "
                "such as apache-2.0, mit, cc-by-4.0 or other."
            )
        if not (self.run.bank / "bank.json").is_file():
            raise InputError(
                f"{self.run.path}: no bank yet. First: {command('run', self.run.path)}"
            )
        refuse_outdated(self.run)


def refuse_own_dataset(wanted: PublicationParts, folder: Path) -> None:
    """Check that a folder is not the dataset that the run's bank was read from.

    Raises:
        InputError: it is.
    """
    recipe = load_recipe(str(wanted.run.recipe)).recipe
    path = getattr(recipe.dataset, "path", None)
    if path is not None and path.resolve() == folder.resolve():
        raise InputError(
            f"{folder}: {wanted.run.path} has its dataset from there, which would be lost. Give "
            "another folder with --to."
        )


def publish_to_folder(wanted: PublicationParts, folder: Path) -> Contents:
    """Write a run's bank, its card and its retriever to a folder.

    - data/{tools,train,validation,test}-*.parquet, and asks and labels if there are any
    - corpus.jsonl, queries.jsonl and qrels/: the splits in the formats of BEIR and TREC
    - runs/: what each retriever finds for the test requests, as TREC runs
    - models/, recipe.yaml, README.md, croissant.json
    - prompts/ and crawlers/: the files that the run was made with
    - with replies, those and replay/ (`write_replies`)

    Everything is written before it replaces an earlier publication. The same run gives the same
    bytes.

    Raises:
        InputError: the run can't be published, or the folder holds something else.
        ToolbankError: the folder can't be written to.
    """
    with replacing(folder, PUBLICATION, whole=True) as made:
        return write_publication(wanted, made)


def write_publication(wanted: PublicationParts, folder: Path) -> Contents:
    """Write all files of a publication but its mark to an empty folder.

    Raises:
        InputError: the run can't be published, or has results of an earlier state.
    """
    wanted.check()
    run = wanted.run
    file = load_recipe(str(run.recipe))
    recipe = file.recipe
    with using_assets(file, run):
        story = read_story(recipe, run)
        if story.stale and not wanted.skip_stale:
            raise InputError(
                f"{run.path}: the results of {', '.join(story.stale)} are of an earlier state of the "
                f"run. First: {command('run', run.path)}. To publish without them, add --skip-stale."
            )
        write_prompts(recipe, run, folder)
    shown = write_retriever(recipe, run, folder, wanted.retriever, story.stale_models)
    rows = write_data(run.bank, folder / DATA, wanted.shard_rows)
    judged = write_graded(folder / DATA, folder)
    if story.figures:
        write_runs(run.hits, folder / "runs")
    prompts = Path("prompts") if (folder / "prompts").is_dir() else None
    own = recipe.model_copy(update={"prompts": prompts})
    (folder / "recipe.yaml").write_text(write_recipe(own), encoding="utf-8")
    n_replies, reproduction = 0, None
    if wanted.replies:
        n_replies = write_replies(recipe, run, folder)
        reproduction = try_reproduction(folder)
    contents = Contents(
        story,
        rows,
        judged,
        shown,
        wanted.licence,
        authors=wanted.authors,
        date=find_date(run.bank / "queries.parquet"),
        facts=list_facts(story, rows, own, folder, run.bank),
        has_prompts=prompts is not None,
        replies=n_replies,
        reproduction=reproduction,
    )
    (folder / "README.md").write_text(write_card(contents), encoding="utf-8")
    write_json(folder / "croissant.json", describe_contents(contents, folder))
    return contents


# Files that a hub creates in a new repository.
_ITS_OWN = {".gitattributes"}


@dataclass(frozen=True)
class _Remote:
    """A repository: its last commit, None if it is new, its files, and those of a publication."""

    name: str
    public: bool
    commit: str | None = None
    files: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()


def publish_to_hub(
    wanted: PublicationParts,
    repository: str,
    *,
    public: bool = False,
    sure: bool = False,
) -> str:
    """Upload a publication to a dataset repository, created if necessary; gives its address.

    The files, the visibility and the licence are shown first, and unless `sure` the user is asked.
    The hub is that of HF_ENDPOINT, or huggingface.co; the token is that of HF_TOKEN or of
    `hf auth login`. It is one commit, which only replaces an earlier publication.

    Raises:
        InputError: the name, the token or the licence is invalid; the repository holds something
            else; or the user did not agree.
        ToolbankError: the hub can't be reached, or fails.
    """
    from huggingface_hub import get_token

    try:
        check_repository(repository)
    except ValueError as error:
        raise InputError(f"--to hub:{repository}: {error}.") from error
    wanted.check()
    with explaining_hub_errors(repository):
        has_token = bool(get_token())
    if not has_token:
        raise InputError(
            f"{repository}: no token to publish with. Set HF_TOKEN to one that may write, or log "
            "in by `hf auth login`."
        )
    remote = _look_up(repository, public=public)
    with tempfile.TemporaryDirectory(prefix="toolbank-publish-") as temporary:
        folder = Path(temporary)
        write_publication(wanted, folder)
        write_mark(folder, PUBLICATION, hash_files(folder))
        names = sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file()
        )
        gone = _find_removed(remote, names)
        sizes = {name: (folder / name).stat().st_size for name in names}
        print_message("\n".join(_describe(remote, wanted.licence, sizes, gone)))
        if not sure:
            _ask()
        return _send(remote, folder, names, gone)


def _look_up(repository: str, *, public: bool) -> _Remote:
    """Read the state of a repository, which is new if the token may see none.

    Raises:
        InputError: it is there with the other visibility.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import RepositoryNotFoundError

    with explaining_hub_errors(repository), tempfile.TemporaryDirectory() as caches:
        try:
            info = HfApi().dataset_info(repository, timeout=30)
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:
                raise
            return _Remote(repository, public)
        files = frozenset(one.rfilename for one in info.siblings or ())
        earlier: frozenset[str] = frozenset()
        marks = [name for name in (MARK, PUBLICATION.former) if name in files]
        if marks:
            mark = hf_hub_download(
                repository,
                marks[0],
                repo_type="dataset",
                revision=info.sha,
                cache_dir=caches,
            )
            listed = read_listed(Path(mark), PUBLICATION)
            earlier = frozenset({*listed, *marks} if listed is not None else ())
    if bool(info.private) == public:
        now, other = ("private", "without") if public else ("public", "with")
        raise InputError(
            f"{repository}: is there already, and {now}. Run it {other} --public, or change that on "
            "the hub."
        )
    return _Remote(repository, public, info.sha or "", files, earlier)


def _find_removed(remote: _Remote, names: Sequence[str]) -> list[str]:
    """List the files of an earlier publication that this one does not have.

    Raises:
        InputError: a file of somebody else would be lost, or is there without a publication.
    """
    foreign = remote.files - remote.earlier - _ITS_OWN
    lost = foreign.intersection(names) if remote.earlier else foreign
    if lost:
        raise InputError(
            f"{remote.name}: holds {min(lost)}, which is not that of a publication; nothing was sent. "
            "Give another name with --to."
        )
    return sorted(remote.earlier & remote.files - set(names))


def _describe(
    remote: _Remote, licence: str, sizes: Mapping[str, int], gone: Sequence[str]
) -> list[str]:
    """Describe what is sent, by the sizes of files, and what is deleted."""
    from huggingface_hub import constants

    state = "new" if remote.commit is None else "there, and empty"
    if remote.earlier:
        state = "in place of what was published there before"
    return [
        f"To be sent to {constants.ENDPOINT}/datasets/{remote.name} ({state})",
        f"  seen by:  {'PUBLIC: anyone can read it' if remote.public else 'private'}",
        f"  licence:  {licence or 'none stated (--license)'}",
        f"  {count(len(sizes), 'file')}, {size(sum(sizes.values()))}:",
        *(f"  {size(n):>9}  {name}" for name, n in sizes.items()),
        *(f"    deleted  {name}" for name in gone),
    ]


def _ask() -> None:
    """Ask the user.

    Raises:
        InputError: the user refuses, or there is no terminal.
    """
    answer = confirm("Send it?")
    if answer is None:
        raise InputError(
            "Nothing was sent: there is no terminal to ask on. Add --yes to send it."
        )
    if not answer:
        raise InputError("Nothing was sent.")


def _send(
    remote: _Remote, folder: Path, names: Sequence[str], gone: Sequence[str]
) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    with explaining_hub_errors(remote.name) as endpoint:
        if remote.commit is None:
            api.create_repo(remote.name, repo_type="dataset", private=not remote.public)
        api.create_commit(
            remote.name,
            [
                *(CommitOperationAdd(name, folder / name) for name in names),
                *(CommitOperationDelete(name) for name in gone),
            ],
            repo_type="dataset",
            commit_message="Publish with toolbank",
            # Do not overwrite what was uploaded since.
            parent_commit=remote.commit,
        )
    return f"{endpoint}/datasets/{remote.name}"
