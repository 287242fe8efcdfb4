"""A stage of a run: what its result depends on, how it is made, and what it cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from toolbank.config.assets import Asset, find_asset
from toolbank.run.folder import RunFolder, hash_tree, stage_key
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.stop import EarlyEnd
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe
    from toolbank.system.consent import Grant


@dataclass(frozen=True)
class Outcome:
    """What a stage says of itself when it ends, and the files that it left.

    One that `lacks` something, and says what, is run again by the next run. `waiting`
    is not empty where it has to wait for something outside: what the user has to do, after
    which the next run goes on with it. `ended_early` says which budget is spent,
    and how to raise it.
    """

    message: str
    files: tuple[Path, ...]
    lacks: str = ""
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: EarlyEnd | None = None


@dataclass(frozen=True)
class Stage(ABC):
    """A stage of a recipe, bound to a run folder.

    A subclass is a kind of stage, whose name is also that of the recipe's key. Heavy libraries
    are imported in its methods: the command line reads the kinds before it does anything.
    """

    recipe: Recipe
    folder: RunFolder

    kind: ClassVar[str]
    """The kind's name, such as "retrievers"."""

    asks_models: ClassVar[bool] = False
    """Whether it asks language models. Others run without what the engines before keep loaded."""

    leaves: ClassVar[tuple[str, ...]] = ()
    """Files in the run folder that go where a recipe has no such stage, since others read them."""

    @property
    def steps(self) -> tuple[str, ...]:
        """What its calls are called in the run's journal; () where it makes none."""
        return ()

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """The stages of this kind that a recipe has."""
        return [] if cls.kind in recipe.unused_keys else [cls(recipe, folder)]

    @property
    def name(self) -> str:
        """The stage's own name, such as "retrievers/bm25"."""
        return self.kind

    @property
    def keeps(self) -> str:
        """What of its work stays where it is stopped, as a sentence; "" where nothing does.

        One that knows more when it is stopped says it, and how one goes on, as the text of the
        KeyboardInterrupt.
        """
        return ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Kinds and names of the stages that it builds on; the recipe may not have all."""
        return ()

    @abstractmethod
    def depends(self) -> Mapping[str, Any]:
        """All that its result follows from, as JSON.

        Raises:
            InputError: a file of an earlier stage or of the user's is missing.
        """

    @abstractmethod
    def work(self) -> Outcome:
        """Make its result.

        Raises:
            ToolbankError: it can't be made.
        """

    def files(self) -> tuple[Path, ...]:
        """Files of the user's that the recipe names and that it reads."""
        return ()

    def places(self) -> tuple[Path, ...]:
        """Folders and files of the user's, there or not, that it finds by other names than theirs.

        Such as the folder of a package or an encoder, and all that is in it.

        Raises:
            InputError: one is not there.
        """
        return ()

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Refuse what it can't be run with, before any stage is run or downloads anything.

        Raises:
            InputError: which key is wrong, and what to do.
        """

    def read_ahead(self) -> None:  # noqa: B027 - most read nothing from outside
        """Read what comes from outside, before the results of another recipe make way for it.

        Raises:
            InputError: it can't be read, or is not enough.
            ToolbankError: it can't be read now, which may pass.
        """

    def plan(self, outlook: Outlook) -> Iterator[str]:  # noqa: ARG002
        """Yield the lines that `toolbank plan` prints about this stage, if it has to run; none by default.

        Raises:
            InputError: it can't be run with its settings, or what it needs can't be read.
            ToolbankError: the journal is damaged.
        """
        return iter(())

    def sends(self) -> tuple[Grant, ...]:
        """Which secrets of the environment it sends where; the user is asked before all else.

        Raises:
            InputError: an address can't be one.
        """
        return ()

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Get what it needs besides, such as an encoder, or refuse to begin, as without a key.

        Raises:
            InputError: what is missing, and how to get it.
        """

    def assets(self) -> tuple[Asset, ...]:
        """Prompts and crawlers that it reads by name: the user's own, or those that come along."""
        return ()

    @property
    def reads_assets(self) -> bool:
        """Whether its assets shape its result; an engine may need no prompts."""
        return True

    def all_assets(self) -> tuple[Asset, ...]:
        """Its assets, and the schemas of replies to its prompt templates."""
        from toolbank.llm.templates import find_schema

        found = self.assets()
        templates = [a.name for a in found if a.name.endswith(".j2")]
        schemas = {asset.title: asset for asset in map(find_schema, templates)}
        return (*found, *schemas.values())

    def asset_hashes(self) -> dict[str, str]:
        """The hash of each of these files by title."""
        return {asset.title: asset.sha256 for asset in self.all_assets()}

    def notes(self) -> list[str]:
        """What the user should know before it runs, such as which files of his own it uses."""
        return [f"{a.kind}/{a.name}: yours, used" for a in self.all_assets() if a.own]

    def refresh(self) -> tuple[Path, ...]:
        """Bring what a done stage left up to date with what its result doesn't follow from.

        Such as prices. Gives the files that it changed.
        """
        return ()

    @property
    def key(self) -> str:
        """The name of all that it depends on."""
        return stage_key(self.name, self.depends())

    @property
    def is_done(self) -> bool:
        """Whether what it left is there, and follows from what there is now."""
        try:
            return self.folder.is_done(self.name, self.key, self.asset_hashes())
        except InputError:
            return False

    @property
    def is_current(self) -> bool:
        """Whether what it left, complete or not, follows from what there is now."""
        try:
            return self.folder.is_current(self.name, self.key, self.asset_hashes())
        except InputError:
            return False

    def stamp(
        self, depends: Mapping[str, Any], files: Iterable[Path], *, complete: bool
    ) -> None:
        """Note in the run folder that these files follow from what it depended on."""
        key = stage_key(self.name, depends)
        assets = self.asset_hashes()
        self.folder.stamp(
            self.name, key, files, complete=complete, depends=depends, assets=assets
        )

    def explain_todo(self) -> str:
        """Why it has to be run again; "" where it was never run."""
        try:
            depends, assets = self.depends(), self.asset_hashes()
        except InputError as error:
            why = str(error).partition("\n")[0]
            return why if self.folder.has_run(self.name) else ""
        return self.folder.explain_todo(self.name, depends, assets)


def hash_file(path: Path) -> str:
    """The SHA-256 of a file that an earlier stage left.

    Raises:
        InputError: it is not there.
    """
    if not path.is_file():
        raise InputError(f"{path}: not there. Run the stages before this one first.")
    return sha256_file(path)


def bank_hashes(folder: RunFolder, recipe: Recipe | None = None) -> dict[str, str]:
    """Hashes of the files that hold tools and queries; of what is trained on, of the asks, too.

    That is where a recipe is given, and it or its dataset has some.
    """
    has_asks = recipe is not None and (
        recipe.asks is not None
        or folder.is_left_by(folder.bank / "asks.parquet", ["dataset"])
    )
    names = ["tools.parquet", "queries.parquet", *(["asks.parquet"] * has_asks)]
    return {name: hash_file(folder.bank / name) for name in names}


def label_hashes(folder: RunFolder, recipe: Recipe) -> dict[str, str]:
    """The hash of the merged labels, if the run has grades or checks, or its dataset has some."""
    path = folder.bank / "labels.parquet"
    has_labels = has_grades(recipe, folder) or folder.is_left_by(path, ["dataset"])
    return {"labels": hash_file(path)} if has_labels else {}


def has_grades(recipe: Recipe, folder: RunFolder) -> bool:
    """Return whether the stage `verify` makes the labels: it is in the recipe, or grades exist."""
    return recipe.verify is not None or folder.grades.is_file()


def model_hashes(recipe: Recipe, folder: RunFolder) -> dict[str, dict[str, str]]:
    """Hashes of the files of every fitted retriever, by its label."""
    return {
        config.label: hash_tree(folder.models / config.label)
        for config in recipe.retrievers
    }


def files_read(config: RetrieverConfig, recipe: Recipe) -> list[str]:
    """Hashes of the files that a retriever, or one that it builds on, reads."""
    own = [hash_file(path) for path in config.files]
    own += [find_asset("prompts", name).sha256 for name in config.templates]
    needed = (other for other in recipe.retrievers if other.label in config.needs)
    return own + [digest for other in needed for digest in files_read(other, recipe)]


def refresh_calls(
    path: Path, config: EngineConfig, folder: RunFolder
) -> tuple[Path, ...]:
    """Write the calls of a done stage as the journal and the prices have them now.

    They stand in the JSON file at `path` under "calls". Gives the file if it was changed.
    """
    from toolbank.llm.accounts import describe_calls
    from toolbank.llm.journal import Journal

    if not folder.journal.is_file():
        return ()
    info = read_json(path)
    with Journal(folder.journal) as journal:
        calls = describe_calls(journal.usage(), config)
    if info.get("calls") == calls:
        return ()
    write_json(path, {**info, "calls": calls})
    return (path,)


def write_searches(recipe: Recipe, folder: RunFolder) -> tuple[Path, ...]:
    """Write what retrievers have asked of models, as their journals and the prices have it now.

    Gives the file if it was changed; without such retrievers there is none.
    """
    found = describe_searches(recipe)
    path = folder.searches
    if not found:
        path.unlink(missing_ok=True)
        return ()
    if path.is_file() and read_json(path) == found:
        return ()
    write_json(path, found)
    return (path,)


def describe_searches(recipe: Recipe) -> dict[str, Any]:
    """`SearchCalls` as JSON, by the labels of retrievers; those of one journal stand together."""
    from toolbank.llm.accounts import describe_calls
    from toolbank.llm.journal import Journal

    labels: dict[tuple[Path, tuple[str, ...]], list[str]] = {}
    configs = {config.label: config.asks for config in recipe.retrievers if config.asks}
    for label, asks in configs.items():
        labels.setdefault((asks.replies, asks.call_steps), []).append(label)
    found = {}
    for (replies, _), together in labels.items():
        asks = configs[together[0]]
        if not replies.is_file():
            continue
        with Journal(replies, read_only=True) as journal:
            calls = describe_calls(journal.usage(), asks)
        if calls:
            found[", ".join(together)] = {"section": asks.section, "calls": calls}
    return found


def write_bank_info(
    recipe: Recipe,
    folder: RunFolder,
    files: Sequence[Path],
    *,
    libraries: Sequence[str],
    origin: Mapping[str, Any],
    splits: Counter[Any],
    withheld: frozenset[str],
) -> Path:
    """Write bank.json for a bank that lies in `files`.

    `libraries` may change its content or the files' bytes, `origin` says where it comes from.
    `splits` counts the queries by split, those that use a tool of `withheld` under None: no query
    of training may use one; or those that share something with two splits, of which none may.
    """
    info: dict[str, Any] = {
        "layout": 1,
        "versions": {
            "toolbank": __version__,
            **{name: metadata.version(name) for name in libraries},
        },
        "name": recipe.name,
        "domain": recipe.domain_name,
        "seed": recipe.seed,
        **origin,
        "splits": {name: splits[name] for name in ("train", "validation", "test")},
    }
    if withheld:
        info["withheld"] = {
            "tools": sorted(withheld),
            "queries_left_out": splits[None],
        }
    elif splits[None]:
        info["straddling"] = {"by": recipe.split.by, "queries_left_out": splits[None]}
    info["sha256"] = {path.name: sha256_file(path) for path in files}
    path = folder.bank / "bank.json"
    write_json(path, info)
    return path
