"""A stage of a run: what its result depends on, how it is made, and what it cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from toolbank.bank.bank import FITTED, MISSING
from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.encoders.location import encoder_identity, locate
from toolbank.encoders.model import find_model, require_model
from toolbank.encoders.workers import check_workers
from toolbank.llm.accounts import describe_calls
from toolbank.llm.engines import find_engine
from toolbank.llm.journal import Journal
from toolbank.llm.templates import find_schema
from toolbank.requests.judge.summary import find_files
from toolbank.run.folder import RunFolder, hash_tree, stage_key
from toolbank.run.version_0_7 import has_unstored_grades
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Query
    from toolbank.encoders.config import EncoderConfig
    from toolbank.llm.config import EngineConfig, SearchModelConfig
    from toolbank.llm.stop import EarlyEnd
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe
    from toolbank.system.consent import Grant


@dataclass(frozen=True)
class Outcome:
    """The message of a stage that has ended, and the files that it wrote.

    `lacks` says what is missing; the next run then runs the stage again. `waiting` says what the
    user has to do before the next run can go on. `ended_early` says which budget is spent, and
    how to raise it.
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

    A subclass is a kind of stage, named after its key in the recipe. It imports heavy libraries
    in its methods, because the command line imports all kinds at the start.
    """

    recipe: Recipe
    folder: RunFolder

    kind: ClassVar[str]
    """The kind's name, such as "retrievers"."""

    asks_models: ClassVar[bool] = False
    """Whether it calls language models. Before other stages, loaded models are released."""

    leaves: ClassVar[tuple[str, ...]] = ()
    """Files that are moved away if a recipe lacks this stage, because other stages read them."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of its calls in the run's journal."""
        return ()

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """Make the stages of this kind that a recipe has."""
        return [] if cls.kind in recipe.unused_keys else [cls(recipe, folder)]

    @property
    def name(self) -> str:
        """The stage's own name, such as "retrievers/bm25"."""
        return self.kind

    @property
    def keeps(self) -> str:
        """A sentence on what is kept if the stage is stopped; "" if nothing is.

        The text of a KeyboardInterrupt replaces it.
        """
        return ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Kinds and names of the stages that it needs; the recipe may not have all."""
        return ()

    @abstractmethod
    def depends(self) -> Mapping[str, Any]:
        """Return everything that its result follows from, as JSON.

        Raises:
            InputError: a file of an earlier stage or of the user is missing.
        """

    @abstractmethod
    def work(self) -> Outcome:
        """Make its result.

        Raises:
            ToolbankError: that fails.
        """

    def files(self) -> tuple[Path, ...]:
        """List the user's files that the recipe names and that it reads."""
        return ()

    def places(self) -> tuple[Path, ...]:
        """List other files and folders that it reads, such as those of a package or an encoder.

        Raises:
            InputError: one is missing.
        """
        return ()

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Settings of the engines that it uses."""
        return ()

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """Encoders that it needs on this machine."""
        return ()

    def check(self) -> None:
        """Refuse settings that cannot work, before any stage runs or downloads anything.

        Raises:
            InputError: which key is wrong, and what to do.
        """
        for config in self.engines:
            find_engine(config).check(config)
        for encoder in self.encoders:
            if encoder.is_remote:
                raise InputError(
                    f"{self.name}: {encoder.label} is at an endpoint, and only `descriptions`, "
                    "`nearest` and `tool2vec` embed by one. Give a sentence-transformers model."
                )
            require_model(locate(encoder))

    @property
    def in_rounds(self) -> bool:
        """Whether it may end and wait for the replies of a round."""
        return False

    def send_only(self) -> Self:
        """Make the stage that sends a round and does not wait for the replies."""
        return self

    def read_ahead(self) -> None:  # noqa: B027 - most read nothing from outside
        """Read its input, before it replaces the results of another recipe.

        Raises:
            InputError: it cannot be read, or is not enough.
            ToolbankError: it cannot be read now.
        """

    def plan(self, outlook: Outlook) -> Iterator[str]:  # noqa: ARG002
        """Yield the lines that `toolbank plan` prints about this stage if it has to run.

        Raises:
            InputError: it cannot run with its settings, or its input cannot be read.
            ToolbankError: the journal is damaged.
        """
        return iter(())

    def find_pending_file(self) -> Path | None:
        """Find a file of requests whose replies this stage waits for."""
        return None

    def sends(self) -> tuple[Grant, ...]:
        """List which secrets of the environment it sends where; the user is asked first.

        Raises:
            InputError: a URL is not valid.
        """
        return tuple(
            grant
            for config in self.engines
            for grant in find_engine(config).sends(config)
        )

    def prepare(self) -> None:
        """Refuse to start without a key or a package, and get what is missing, such as encoders.

        Raises:
            InputError: what is missing, and how to get it.
        """
        for config in self.engines:
            find_engine(config).check_access(config)
        for encoder in self.encoders:
            check_workers(encoder)
            find_model(locate(encoder))

    def assets(self) -> tuple[Asset, ...]:
        """Find the prompts and crawlers that it reads: the user's own, or bundled ones."""
        return ()

    @property
    def reads_assets(self) -> bool:
        """Whether its assets shape its result; some engines read no prompts."""
        return True

    def all_assets(self) -> tuple[Asset, ...]:
        """Find its assets, and the schemas of replies to its prompt templates."""
        found = self.assets()
        templates = [a.name for a in found if a.name.endswith(".j2")]
        schemas = {asset.title: asset for asset in map(find_schema, templates)}
        return (*found, *schemas.values())

    def asset_hashes(self) -> dict[str, str]:
        """Return the hashes of all assets by title."""
        return {asset.title: asset.sha256 for asset in self.all_assets()}

    def notes(self) -> list[str]:
        """List what the user should know before it runs, such as custom files that it uses."""
        return [f"{a.title}: yours, used" for a in self.all_assets() if a.own]

    def refresh(self) -> tuple[Path, ...]:
        """Update details of a done stage that shape no result, such as prices.

        Returns the changed files.
        """
        return ()

    @property
    def key(self) -> str:
        """The hash of everything that it depends on."""
        return stage_key(self.name, self.depends())

    @property
    def is_done(self) -> bool:
        """Whether its files are complete, and follow from the present input."""
        return self._has_stamp(must_be_complete=True)

    @property
    def is_current(self) -> bool:
        """Whether its files, complete or not, follow from the present input."""
        return self._has_stamp(must_be_complete=False)

    def _has_stamp(self, *, must_be_complete: bool) -> bool:
        with suppress(InputError):
            key, assets = self.key, self.asset_hashes()
            return self.folder.is_current(self.name, key, assets, must_be_complete)
        return False

    def stamp(
        self, depends: Mapping[str, Any], files: Iterable[Path], *, complete: bool
    ) -> None:
        """Record in the run folder that these files follow from what it depended on."""
        key = stage_key(self.name, depends)
        assets = self.asset_hashes()
        self.folder.stamp(
            self.name, key, files, complete=complete, depends=depends, assets=assets
        )

    def take_result(self, siblings: Iterable[RunFolder]) -> RunFolder | None:
        """Copy the result from a run that has made it of the same input; returns its folder.

        A stage that calls models is not copied: it needs their replies too, which the journal
        borrows.
        """
        with suppress(InputError):
            depends, assets = self.depends(), self.asset_hashes()
            key = stage_key(self.name, depends)
            for one in () if self.asks_models else siblings:
                if one.is_current(self.name, key, assets, must_be_complete=True):
                    files = self.folder.copy_outputs(self.name, one)
                    self.stamp(depends, files, complete=True)
                    return one
        return None

    def explain_todo(self) -> str:
        """Explain why it has to run again; "" if it has never run."""
        try:
            depends, assets = self.depends(), self.asset_hashes()
        except InputError as error:
            why = str(error).partition("\n")[0]
            return why if self.folder.has_run(self.name) else ""
        return self.folder.explain_todo(self.name, depends, assets)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file that an earlier stage wrote.

    Raises:
        InputError: it is missing.
    """
    if not path.is_file():
        raise InputError(f"{path}: missing. Run the stages before this one first.")
    return sha256_file(path)


def bank_hashes(folder: RunFolder, recipe: Recipe | None = None) -> dict[str, str]:
    """Hash the files of tools and queries; with a recipe, also those of its asks, if any."""
    has_asks = recipe is not None and (
        recipe.asks is not None
        or folder.is_left_by(folder.bank / "asks.parquet", ["dataset"])
    )
    names = ["tools.parquet", "queries.parquet", *(["asks.parquet"] * has_asks)]
    return {name: hash_file(folder.bank / name) for name in names}


def missing_hashes(folder: RunFolder, recipe: Recipe) -> dict[str, str]:
    """Hash the missing-tool queries, if the recipe or its dataset has some."""
    path = folder.bank / MISSING
    has_some = recipe.missing is not None or folder.is_left_by(path, ["dataset"])
    return {"missing": hash_file(path)} if has_some else {}


def label_hashes(folder: RunFolder, recipe: Recipe) -> dict[str, str]:
    """Hash the merged labels, if the run verifies them or its dataset has some.

    With missing-tool queries, also those among them that a grader found a tool for.
    """
    path, fitted = folder.bank / "labels.parquet", folder.bank / FITTED
    is_verified = has_grades(recipe, folder)
    has_labels = is_verified or folder.is_left_by(path, ["dataset"])
    return {
        **({"labels": hash_file(path)} if has_labels else {}),
        **({"fitted": hash_file(fitted)} if is_verified and fitted.is_file() else {}),
    }


def has_grades(recipe: Recipe, folder: RunFolder) -> bool:
    """Return whether the stage `verify` makes the labels: it is in the recipe, or grades exist."""
    has_stored = folder.grades.is_file() or has_unstored_grades(folder)
    return recipe.verify is not None or has_stored


def model_hashes(recipe: Recipe, folder: RunFolder) -> dict[str, dict[str, str]]:
    """Hash the files of every fitted retriever, by label."""
    return {
        config.label: hash_tree(folder.models / config.label)
        for config in recipe.retrievers
    }


def files_read(config: RetrieverConfig, recipe: Recipe) -> list[str]:
    """Hash the files that a retriever, or one that it builds on, reads."""
    own = [hash_file(path) for path in config.files]
    own += [find_asset("prompts", name).sha256 for name in config.templates]
    needed = (other for other in recipe.retrievers if other.label in config.needs)
    return own + [digest for other in needed for digest in files_read(other, recipe)]


def depends_on_copies(recipe: Recipe, *files: Path) -> dict[str, Any]:
    """Return what dropped copies follow from, including own files; {} if none are dropped."""
    limits, encoder = recipe.profile.copies, recipe.plain_encoder
    if not limits.drop:
        return {}
    others = (file for place in limits.against for file in find_files(place))
    return {
        "copies": shape(limits),
        "copies_of": [hash_file(path) for path in (*files, *others)],
        "copies_by": encoder_identity(encoder) if encoder else None,
    }


def drop_copies(recipe: Recipe, queries: Sequence[Query]) -> tuple[list[Query], int]:
    """Put the train queries that are copies into no split; returns all, and the number of copies.

    Raises:
        InputError: another set can't be read, or the encoder can't be loaded.
    """
    from toolbank.requests.profile.copies import find_dropped

    rows = [row for row, query in enumerate(queries) if query.split == "train"]
    texts = [queries[row].query for row in rows]
    found = find_dropped(texts, queries, recipe.profile.copies, recipe.plain_encoder)
    kept = list(queries)
    for place in found:
        row = rows[place]
        kept[row] = queries[row].model_copy(update={"split": None})
    return kept, len(found)


def describe_left_out(**counts: int) -> dict[str, Any]:
    """Return keys of bank.json with the number of queries that each left out; none for 0."""
    return {key: {"queries_left_out": n} for key, n in counts.items() if n}


def refresh_calls(
    path: Path, config: EngineConfig, folder: RunFolder
) -> tuple[Path, ...]:
    """Update "calls" in the JSON file of a done stage, by the present journal and prices.

    Returns the file if it has changed.
    """
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
    """Write the calls of retrievers to searches.json, by the present journals and prices.

    They are `SearchCalls` by the labels of the retrievers that share a journal. Returns the file
    if it has changed; without such retrievers there is none.
    """
    models: dict[tuple[Path, tuple[str, ...]], dict[str, SearchModelConfig]] = {}
    for config in recipe.retrievers:
        for model in config.models:
            place = model.known_replies, model.call_steps
            models.setdefault(place, {})[config.label] = model
    found = {}
    for (replies, _), by_label in models.items():
        if not replies.is_file():
            continue
        model = next(iter(by_label.values()))
        with Journal(replies, read_only=True) as journal:
            calls = describe_calls(journal.usage(), model)
        if calls:
            found[", ".join(by_label)] = {"section": model.section, "calls": calls}
    path = folder.searches
    if not found:
        path.unlink(missing_ok=True)
    if not found or (path.is_file() and read_json(path) == found):
        return ()
    write_json(path, found)
    return (path,)


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
    """Write bank.json for a bank in `files`.

    `libraries` are those whose versions may change its content; `origin` are keys on its origin.
    `splits` counts the queries by split. None counts those that use a tool of `withheld`, or that
    straddle two splits: neither may be used.
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
        **recipe.other_bank_seed,
        **recipe.other_language,
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
