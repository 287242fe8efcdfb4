"""A recipe: one YAML file that describes a whole run."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from toolbank.bank.bank import Labels
from toolbank.bank.split import SplitConfig
from toolbank.config.assets import (
    AssetFolders,
    AssetKind,
    find_asset,
    has_asset,
    looking_in,
    name_others,
    shipped,
)
from toolbank.config.base import Config, anchor_paths, renamed
from toolbank.config.explain import explain, with_new_names
from toolbank.config.registry import TaggedUnion
from toolbank.config.yaml import (
    MOST_BYTES,
    dump_mapping,
    parse_mapping,
    parse_value,
    too_long,
)
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.kind import DatasetSettings
from toolbank.evaluation import EvaluateConfig
from toolbank.llm.config import EngineConfig, SearchModelConfig, change_search_models
from toolbank.papers.planner.config import PlannerConfig
from toolbank.report import ReportConfig
from toolbank.requests.asks import AsksConfig
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.write.config import GenerateConfig
from toolbank.retrievers import RETRIEVERS, settings
from toolbank.retrievers.kind import Baseline, RetrieverConfig
from toolbank.sources import SOURCES
from toolbank.sources.kind import SourceConfig
from toolbank.system.consent import DEFAULT_KEY, Route, command_of, grant_to_send
from toolbank.system.errors import InputError
from toolbank.system.files import reading
from toolbank.system.folders import is_run_folder
from toolbank.system.text import find_control_sign

BASELINES: tuple[RetrieverConfig, ...] = (
    settings.Bm25Config(),
    settings.DescriptionsConfig(),
    settings.NearestConfig(),
)

DEFAULTS = (*BASELINES, settings.Tool2VecConfig())
"""What a recipe that lists no retrievers has."""


def add_baselines(configs: Sequence[RetrieverConfig]) -> tuple[RetrieverConfig, ...]:
    """The retrievers, and before them those of `BASELINES` that are missing.

    One is there if a retriever is that `baseline`, with whatever settings; by an encoder and by
    words are two. Those added read with the encoder that is listed first, so that a better
    encoder is not taken for a better method.
    Where another retriever has the name of one, it is called "untrained" after it.
    """
    labels = {config.label for config in configs}
    listed = {_kind(config) for config in configs}
    encoders = [encoder for config in configs for encoder in config.encoders]
    added: list[RetrieverConfig] = []
    for baseline in BASELINES:
        if _kind(baseline) not in listed:
            label = baseline.label
            read_by = {"encoder": encoders[0]} if encoders and baseline.encoders else {}
            name = f"{label}-untrained" if label in labels else ""
            added.append(baseline.model_copy(update={"name": name, **read_by}))
    return *added, *configs


def _kind(config: RetrieverConfig) -> tuple[Baseline | None, bool]:
    return config.baseline, bool(config.encoders)


# What makes a bank, where no dataset takes its place.
_MADE = ("sources", "generate")


RESOLVED = "# Resolved from "
"""How a recipe begins that a run has written."""

SCHEMA_FILE = "toolbank.schema.json"
"""Beside a recipe, what editors check it by."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Recipe(Config):
    """Everything that shapes a run. The keys are the names of the stages."""

    model_config = renamed(floors="baselines")

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="of the run and its folder"
    )
    domain: str = Field(
        default="",
        max_length=100,
        description="what prompts call the API; picks prompts/examples/<domain>.jsonl; unset: the "
        "package or site, of several sources or a dataset the name",
    )
    seed: int = Field(
        default=0,
        ge=-(2**63),
        lt=2**63,
        description="same recipe, same seed: same bank",
    )
    prompts: Path | None = Field(
        default=None,
        description="folder with prompt templates, examples and schemas of replies in place of the "
        "bundled ones; unset: `prompts` beside the recipe",
    )
    dataset: Annotated[DatasetSettings, TaggedUnion(DATASETS)] | None = Field(
        default=None, description="in place of sources and generate"
    )
    sources: tuple[Annotated[SourceConfig, TaggedUnion(SOURCES)], ...] = ()
    generate: GenerateConfig = GenerateConfig()
    asks: AsksConfig | None = Field(
        default=None,
        description="requests for each tool by itself; unset: none. Without an `engine` of its "
        "own it has that of `generate`, and that one's keys where they are not set",
    )
    split: SplitConfig = SplitConfig()
    judge: JudgeConfig = Field(
        default=JudgeConfig(),
        description="requests compared with others; of a dataset only where it is set",
    )
    verify: VerifyConfig | None = Field(
        default=None,
        description="labels of requests checked and graded again; unset: as first written",
    )
    labels: Labels = Field(
        default="verified",
        description="what retrievers learn from: `verified` labels where a request has them, or "
        "those `first` written",
    )
    baselines: bool = Field(
        default=True,
        description="also fit and evaluate bm25, descriptions and nearest if they aren't listed",
    )
    retrievers: tuple[Annotated[RetrieverConfig, TaggedUnion(RETRIEVERS)], ...] = Field(
        default=DEFAULTS, min_length=1
    )
    evaluate: EvaluateConfig = EvaluateConfig()
    planner: PlannerConfig | None = Field(
        default=None,
        description="planners, which the last stage trains, for `toolbank planner`; unset: none",
    )
    report: ReportConfig = ReportConfig()

    @property
    def domain_name(self) -> str:
        """What the prompts call the API, and the name of its examples."""
        names = {source.api_name for source in self.sources}
        read = names.pop() if len(names) == 1 else ""
        return self.domain or read or self.name

    @property
    def search_models(self) -> tuple[SearchModelConfig, ...]:
        """The models that searches ask, of retrievers and the planner."""
        asked = [config.asks for config in self.retrievers]
        asked.append(self.planner.ask if self.planner else None)
        return tuple(one for one in asked if one is not None)

    @property
    def unused_keys(self) -> tuple[str, ...]:
        """The keys that count for nothing: the bank is made, or it isn't, or lacks an option."""
        origin: tuple[str, ...] = ("dataset",)
        if self.dataset is not None:
            is_judged = "judge" in self.model_fields_set
            origin = _MADE if is_judged else (*_MADE, "judge")
        options = {"asks": self.asks, "verify": self.verify}
        return *origin, *(name for name, config in options.items() if config is None)

    def demand_validation(self) -> None:
        """Refuse `patience` where no query is held back for validation.

        Raises:
            ValueError: a retriever has it.
        """
        for config in self.retrievers:
            if any(training.patience for training in config.trainings):
                raise ValueError(
                    f"retrievers: {config.label} has patience, which goes by validation "
                    "queries, and there are none; set split.validation, or no patience"
                )

    @field_validator("domain")
    @classmethod
    def _is_a_name(cls, domain: str) -> str:
        if "/" in domain or "\\" in domain or find_control_sign(domain):
            raise ValueError(
                "should be the name by which people know the API, on one line and without a "
                "slash; it stands in the prompts"
            )
        return domain

    @model_validator(mode="after")
    def _has_one_origin(self) -> Recipe:
        given = [name for name in _MADE if name in self.model_fields_set]
        if self.dataset is None and not self.sources:
            raise ValueError(
                "a recipe needs `sources`, a list of at least 1 entry, to make a bank from, or "
                "`dataset`, to take one that is there"
            )
        if self.dataset is not None and given:
            raise ValueError(
                f"`dataset` takes the place of `{given[0]}`; leave one of the two out"
            )
        return self

    @field_validator("asks", mode="before")
    @classmethod
    def _take_engine(cls, asks: Any, info: ValidationInfo) -> Any:
        """Who writes the requests writes the asks, too, where these name no engine of their own."""
        generate = info.data.get("generate")
        if not isinstance(asks, dict) or "engine" in asks or generate is None:
            return asks
        taken = generate.model_fields_set & EngineConfig.model_fields.keys()
        return {key: getattr(generate, key) for key in taken} | asks

    @field_validator("split")
    @classmethod
    def _leaves_train(cls, split: SplitConfig, info: ValidationInfo) -> SplitConfig:
        made = info.data.get("dataset", True) is None
        if made and split.validation + split.test >= 1:
            raise ValueError(
                f"validation ({split.validation}) and test ({split.test}) leave nothing to train on"
            )
        return split

    @model_validator(mode="after")
    def _asks_for_no_tool_held_out(self) -> Recipe:
        if self.asks is not None and self.split.by in ("tool", "family"):
            raise ValueError(
                f"`split.by: {self.split.by}` holds tools back from training, and `asks` has requests "
                "for each of them written to train on; leave one of the two out, or hold tools back "
                "by split.withhold_tools, which asks know of"
            )
        return self

    @field_validator("retrievers")
    @classmethod
    def _list_baselines(
        cls, configs: tuple[RetrieverConfig, ...], info: ValidationInfo
    ) -> tuple[RetrieverConfig, ...]:
        return add_baselines(configs) if info.data.get("baselines") else configs

    @model_validator(mode="after")
    def _retrievers_differ(self) -> Recipe:
        fitted: list[str] = []
        for config in self.retrievers:
            if config.label in fitted:
                raise ValueError(
                    f"retrievers: {config.label} is listed more than once; give one a name"
                )
            for needed in config.needs:
                if needed not in fitted:
                    raise ValueError(
                        f"retrievers: {config.label} builds on {needed}, which is not listed "
                        "before it"
                    )
            fitted.append(config.label)
        return self

    @model_validator(mode="after")
    def _retrievers_suit(self) -> Recipe:
        if self.dataset is None and not self.split.validation:
            self.demand_validation()
        by_label = {config.label: config for config in self.retrievers}
        for config in self.retrievers:
            needed = config.needs_vectors
            if needed and not by_label[needed].has_vectors:
                raise ValueError(
                    f"retrievers: {config.label} needs vectors of tools, and {needed} "
                    f"({by_label[needed].type}) has none; name one that has, such as one of "
                    "type tool2vec or descriptions"
                )
            unordered = self.dataset is not None and not self.dataset.ordered
            if config.needs_order and unordered:
                raise ValueError(
                    f"retrievers: {config.label} learns the order in which tools are called; "
                    "set `dataset.ordered: true` if a query's tools stand in it, or leave "
                    f"{config.label} out"
                )
        return self

    @model_validator(mode="after")
    def _planner_suits(self) -> Recipe:
        if self.planner is None:
            return self
        if self.dataset is not None and not self.dataset.ordered:
            raise ValueError(
                "planner: plans have an order; set `dataset.ordered: true` if a query's tools "
                "stand in that of their calls, or leave `planner` out"
            )
        labels = {config.label for config in self.retrievers}
        for setting in self.planner.settings:
            for label in sorted(setting.retrievers - labels):
                raise ValueError(
                    f"planner.settings: {setting.label} names {label}, which is no retriever of "
                    "the recipe; name one, or gold, random or none"
                )
        return self


@dataclass(frozen=True)
class RecipeFile:
    """A recipe, the file that it was read from, and that file's hash.

    `own` says that a file of the user's went before one of the same name that comes along, and
    `typed` where the user's own settings let keys go. Of the recipe's retrievers, the last `listed`
    are those that the file or the user names; the others were added.
    """

    recipe: Recipe
    path: Path
    sha256: str
    own: bool = False
    typed: tuple[Route, ...] = ()
    listed: int = 0

    @property
    def asset_folders(self) -> AssetFolders:
        """Where the recipe's own prompts and crawlers are.

        That is beside the recipe, or beside the folder `recipes` that it is in. A bundled recipe
        has them in the current folder.
        """
        home = self.path.parent
        bundled = shipped("recipes").resolve()
        if self.path.is_dir() or self.path.resolve().is_relative_to(bundled):
            home = Path.cwd()
        own: dict[AssetKind, Path] = {}
        for kind in get_args(AssetKind):
            is_beside = home.name == "recipes" and not (home / kind).is_dir()
            own[kind] = (home.parent if is_beside else home).absolute() / kind
        if self.recipe.prompts is not None:
            own["prompts"] = self.recipe.prompts
        return AssetFolders(own)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Work on this recipe while the block runs.

        Questions about keys name it, `typed` counts, and its own prompts and crawlers are found.
        """
        with command_of(str(self.path), self.typed), looking_in(self.asset_folders):
            yield


def load_recipe(name: str, settings: Sequence[str] = ()) -> RecipeFile:
    """Read a recipe by path or by the name of one that comes along, then apply `key=value`s.

    Relative paths in the file start at the file's folder, those in `settings` at the
    current one. In the recipe that a run left in its folder, keys may have the names of an earlier
    version.

    Raises:
        InputError: no such recipe, or it is not valid; the message names file, line and key.
    """
    if not name.strip():
        raise InputError(
            "The recipe is empty; give a name, a YAML file or a run folder."
        )
    path, own = _locate(name)
    with reading(path), path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise too_long(str(path))
        text = content.decode("utf-8")
    return _parse(text, path, settings, own=own)


def recipe_of_dataset(name: str, settings: Sequence[str] = ()) -> RecipeFile:
    """The recipe by which a folder with a dataset is judged, with `key=value`s applied.

    Raises:
        InputError: the folder has the files of no format, or a setting is not valid.
    """
    config = find_format(Path(name))
    called = _NO_NAME.sub("-", Path(name).resolve().name).strip("-._") or "dataset"
    data = {
        # Not the name that a recipe of it would have, so that no run of such a one is touched.
        "name": f"judge-{called}",
        "dataset": {"type": config.type, "path": str(Path(name).resolve())},
    }
    return _parse(dump_mapping(data), Path(name), settings)


def _parse(
    text: str, path: Path, settings: Sequence[str], own: bool = False
) -> RecipeFile:
    data, lines = parse_mapping(text, str(path))
    if text.startswith(RESOLVED) and data.get("sources") and not data.get("domain"):
        # A run that was begun when an unset domain was the name.
        data["domain"] = data.get("name", "")
    schema = recipe_schema()
    if _is_of_run(path):
        data = with_new_names(data, schema)
    data = anchor_paths(data, schema, path.parent)
    overrides = [_apply(data, setting) for setting in settings]
    try:
        recipe = Recipe.model_validate(anchor_paths(data, schema, Path.cwd()))
    except ValidationError as error:
        raise InputError(explain(error, schema, str(path), lines, overrides)) from error
    if _is_of_run(path):
        recipe = place_replies(recipe, path, path.parent)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    listed = len(data.get("retrievers") or ())
    typed = tuple(_typed_routes(recipe, listed, overrides))
    return RecipeFile(recipe, path, sha256, own, typed, listed)


def read_recipe(data: dict[str, Any]) -> Recipe:
    """The recipe of data that a run left, whose keys may have the names of an earlier version.

    Raises:
        InputError: this version can't read it.
    """
    schema = recipe_schema()
    try:
        return Recipe.model_validate(with_new_names(data, schema))
    except ValidationError as error:
        raise InputError(explain(error, schema, "origin.json", {}, ())) from error


def place_replies(recipe: Recipe, path: Path, folder: Path) -> Recipe:
    """The recipe of the file `path` with the replies of searches in the run folder.

    Earlier versions kept them next to the recipe, or wherever it said. A recipe that a run has
    left goes on with a copy of those.

    Raises:
        InputError: the recipe names a file outside of the run folder.
    """
    home = Path(os.path.realpath(path.parent))
    inside = Path(os.path.realpath(folder))
    homes = (inside, home) if _is_of_run(path) else (inside,)

    def find(config: SearchModelConfig) -> tuple[Path, Path | None]:
        """The file that is meant, and its path in the run folder if that follows from it."""
        given = config.replies
        with suppress(RuntimeError):
            given = given.expanduser()
        file = Path(os.path.normpath(home / given))
        if not given.is_absolute():
            return file, given
        inner = (file.relative_to(h) for h in homes if file.is_relative_to(h))
        return file, next(inner, None)

    found = [find(config) for config in recipe.search_models]
    taken = {Path("journal.sqlite")}
    taken |= {Path(os.path.normpath(name)) for _, name in found if name}
    # Files of one name in different folders stay different files.
    names: dict[Path, Path] = {}
    for file, name in found:
        if name is None and file not in names:
            names[file] = next(one for one in _number(file) if one not in taken)
            taken.add(names[file])

    def place(config: SearchModelConfig) -> SearchModelConfig:
        file, name = find(config)
        if name is None:
            name = names[file] if _is_of_run(path) else file
        target = Path(os.path.realpath(inside / name))
        if not target.is_relative_to(inside) or target == inside:
            wanted = file if file.suffix else Path("replies.sqlite")
            free = next(
                one
                for one in _number(wanted)
                if one not in taken - {names.get(file)} and not (inside / one).exists()
            )
            raise InputError(
                f"{path}: {config.section}.replies: {config.replies} is not in the run folder "
                f"{folder}, and a recipe's replies are kept there. Write a name, such as "
                f"`replies: {free}`.{_advise_to_copy(file, folder / free)}"
            )
        if target == config.replies:
            return config
        is_kept = config.known_replies == config.replies
        earlier = file if is_kept else config.known_replies
        return config.keep_replies(target, None if earlier == target else earlier)

    return _change_search_models(recipe, place)


def _number(file: Path) -> Iterator[Path]:
    """Its name, then names with a number, such as replies-2.sqlite."""
    yield Path(file.name)
    for number in itertools.count(2):
        yield Path(f"{file.stem}-{number}{file.suffix}")


def _advise_to_copy(replies: Path, target: Path) -> str:
    """How to go on with replies that are elsewhere, if they are."""
    from toolbank.llm.journal import is_journal

    if not is_journal(replies):
        return ""
    folder, to = shlex.quote(str(target.parent)), shlex.quote(str(target))
    return f" To go on with the replies in it: mkdir -p {folder} && cp {shlex.quote(str(replies))} {to}"


def dump_recipe(recipe: Recipe, folder: Path | None = None) -> str:
    """The recipe as YAML that `load_recipe` reads back to an equal one.

    Files in the run folder `folder` are named relative to it.
    """
    if folder is not None:
        inside = Path(os.path.realpath(folder))

        def name(config: SearchModelConfig) -> SearchModelConfig:
            is_in = config.replies.is_relative_to(inside)
            kept = config.replies.relative_to(inside) if is_in else config.replies
            return config.keep_replies(kept)

        recipe = _change_search_models(recipe, name)
    data = recipe.model_dump(mode="json", exclude=set(recipe.unused_keys))
    return dump_mapping(data)


@cache
def recipe_schema() -> dict[str, Any]:
    """JSON Schema of a recipe, for editors: made once, to be read alone."""
    return Recipe.model_json_schema()


def _is_of_run(path: Path) -> bool:
    """Whether a run has left this file in its folder."""
    return path.name == "recipe.yaml" and is_run_folder(path.parent)


def _change_search_models(
    recipe: Recipe, change: Callable[[SearchModelConfig], SearchModelConfig]
) -> Recipe:
    retrievers = tuple(
        change_search_models(config, change) for config in recipe.retrievers
    )
    planner = recipe.planner and change_search_models(recipe.planner, change)
    return recipe.model_copy(update={"retrievers": retrievers, "planner": planner})


def _locate(name: str) -> tuple[Path, bool]:
    path = Path(name)
    if is_run_folder(path):
        path = path / "recipe.yaml"
    if path.is_file():
        return path, False
    if (path / "recipe.yaml").is_file():
        raise InputError(
            f"{name}: a folder that no run has made. To run the recipe in it, give the file: "
            f"{path / 'recipe.yaml'}"
        )
    kind: AssetKind = "recipes"
    file = name if path.suffix else f"{name}.yaml"
    if path.parent == Path() and has_asset(kind, file):
        asset = find_asset(kind, file)
        return asset.path, asset.own
    if path.is_dir():
        raise InputError(
            f"{name}: a folder, and not that of a run. Give the YAML file of a recipe."
        )
    if path.exists():
        raise InputError(f"{name}: no plain file. Give the YAML file of a recipe.")
    if path.parent != Path():
        raise InputError(f"{name}: no such recipe file or run folder.")
    raise InputError(
        f"{name}: no such file, and no recipe of this name comes along. "
        f"{name_others(kind, file)}"
    )


def _apply(data: dict[str, Any], setting: str) -> tuple[str, ...]:
    key, equals, text = setting.partition("=")
    parts = tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise InputError(
            f"--set {setting}: write --set key=value, such as --set generate.queries=500."
        )
    value = parse_value(text, f"--set {key}")
    target: Any = data
    keys: list[str] = []
    for part in parts:
        is_dict = isinstance(target, dict)
        at: Any = part if is_dict else _find_item(target, part, setting)
        keys.append(str(at))
        if len(keys) == len(parts):
            target[at] = value
        elif is_dict and target.get(at) is None:
            target[at] = {}
        target = target[at]
    return tuple(keys)


def _typed_routes(
    recipe: Recipe, listed: int, typed: Sequence[tuple[str, ...]]
) -> Iterator[Route]:
    """Which keys may go where by what the user typed; `listed` retrievers are the file's own.

    A host counts where it was typed itself; a variable beside it too, but for the default key,
    since a recipe could name any.
    """
    for path, config in _engines(recipe, listed):

        def is_typed(*keys: str, path: tuple[str, ...] = path) -> bool:
            return any((*path, *keys)[: len(key)] == key for key in typed)

        given = config.model_fields_set
        if "base_url" not in given or not is_typed("base_url"):
            continue
        has_own = "api_key_env" in given and is_typed("api_key_env")
        variables = {config.api_key_env if has_own else DEFAULT_KEY}
        for name, variable in config.headers.items():
            if is_typed("headers", name):
                variables.add(variable)
        for variable in sorted(filter(None, variables)):
            with suppress(InputError):
                yield grant_to_send(variable, config.base_url, "").route


def _engines(
    recipe: Recipe, listed: int
) -> Iterator[tuple[tuple[str, ...], EngineConfig]]:
    """The parts of a recipe that ask a model, each with the keys that lead to it."""
    # Baselines that were added stand first.
    own = recipe.retrievers[len(recipe.retrievers) - listed :] if listed else ()
    parts: dict[tuple[str, ...], Config] = {(): recipe}
    parts |= {("retrievers", str(at)): config for at, config in enumerate(own)}
    if recipe.planner is not None:
        parts["planner",] = recipe.planner
    for path, part in parts.items():
        if isinstance(part, EngineConfig):
            yield path, part
        for key, value in part:
            if isinstance(value, EngineConfig):
                yield (*path, key), value


def _find_item(target: Any, part: str, setting: str) -> int:
    """Which item of a list is meant by its number, or by a name or type that it alone has."""
    items = target if isinstance(target, list) else []
    if part.isdecimal() and int(part) < len(items):
        return int(part)
    for key in ("name", "type"):
        found = [
            number
            for number, item in enumerate(items)
            if part == (item.get(key) if isinstance(item, dict) else item)
        ]
        if len(found) == 1:
            return found[0]
    raise InputError(f"--set {setting}: there is nothing at {part!r} in the recipe.")
