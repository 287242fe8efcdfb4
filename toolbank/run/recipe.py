"""A recipe: one YAML file that describes a whole run."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    Field,
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
from toolbank.config.base import Config, anchor_paths
from toolbank.config.explain import explaining
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
from toolbank.encoders.config import EncoderConfig
from toolbank.evaluation import EvaluateConfig
from toolbank.llm.config import EngineConfig, SearchModelConfig, change_search_models
from toolbank.papers.planner.config import PlannerConfig
from toolbank.report import ReportConfig
from toolbank.requests.asks import AsksConfig
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.requests.missing import MissingConfig
from toolbank.requests.profile import ProfileConfig
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.language import ENGLISH, LANGUAGES
from toolbank.retrievers import RETRIEVERS, settings
from toolbank.retrievers.kind import Baseline, RetrieverConfig
from toolbank.sources import SOURCES
from toolbank.sources.kind import SourceConfig
from toolbank.system.consent import DEFAULT_KEY, Route, command_of, grant_to_send
from toolbank.system.errors import InputError
from toolbank.system.files import reading
from toolbank.system.folders import is_run_folder
from toolbank.system.text import find_control_character

BASELINES: tuple[RetrieverConfig, ...] = (
    settings.Bm25Config(),
    settings.DescriptionsConfig(),
    settings.NearestConfig(),
)

DEFAULTS = (*BASELINES, settings.Tool2VecConfig())
"""The retrievers of a recipe that lists none."""


def add_baselines(configs: Sequence[RetrieverConfig]) -> tuple[RetrieverConfig, ...]:
    """Put the missing ones of `BASELINES` before the retrievers.

    A baseline is present if a retriever is that `baseline` with any settings; dense and lexical
    ones are two. Added ones use the first encoder of the list, so that a better encoder is not
    mistaken for a better method. If the name is taken, "-untrained" is appended.
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


# The keys that a dataset replaces.
_MADE = ("sources", "generate")

RESOLVED = "# Resolved from "
"""The first words of a recipe that a run wrote."""

SCHEMA_FILE = "toolbank.schema.json"
"""The schema next to a recipe, for editors."""

NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Recipe(Config):
    """Everything that shapes a run. The keys are the names of the stages."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="name of the run and its folder",
    )
    domain: str = Field(
        default="",
        max_length=100,
        description=(
            "name of the API in prompts, and in the file name "
            "prompts/examples/<domain>.jsonl; unset: the name of the source if there is "
            "only one, otherwise of the recipe"
        ),
    )
    seed: int = Field(
        default=0,
        ge=-(2**63),
        lt=2**63,
        description="seed of everything that is random",
    )
    bank_seed: int | None = Field(
        default=None,
        ge=-(2**63),
        lt=2**63,
        description="seed of everything that calls a model to make the bank: candidate sets, "
        "asks, grades and verdicts; `seed` then shapes only splits and training; unset: `seed`",
    )
    language: str = Field(
        default=ENGLISH,
        description="language of requests and asks, an ISO 639-1 code such as de",
    )
    prompts: Path | None = Field(
        default=None,
        description="folder of custom prompt templates; unset: `prompts` next to the recipe",
    )
    dataset: Annotated[DatasetSettings, TaggedUnion(DATASETS)] | None = Field(
        default=None, description="replaces `sources` and `generate`"
    )
    sources: tuple[Annotated[SourceConfig, TaggedUnion(SOURCES)], ...] = ()
    generate: GenerateConfig = Field(default=GenerateConfig(), validate_default=True)
    asks: AsksConfig | None = Field(
        default=None,
        description="queries for single tools; unset: none. Without `engine`, it inherits the "
        "engine settings of `generate`",
    )
    missing: MissingConfig | None = Field(
        default=None,
        description="queries that no tool fits; unset: none. Without `engine`, it inherits the "
        "engine settings of `generate`",
    )
    split: SplitConfig = SplitConfig()
    judge: JudgeConfig = Field(
        default=JudgeConfig(),
        description=(
            "compare requests with their drafts or with other requests; with `dataset`, "
            "only if this key is set"
        ),
    )
    verify: VerifyConfig | None = Field(
        default=None,
        description="check and grade labels; unset: only `toolbank verify` checks them",
    )
    profile: ProfileConfig = ProfileConfig()
    labels: Labels = Field(
        default="verified",
        description=(
            "labels to learn from; verified: the verified labels of a request, or those it "
            "was written with if it has none; first: always those it was written with"
        ),
    )
    baselines: bool = Field(
        default=True,
        description="add bm25, descriptions and nearest if they are not listed",
    )
    retrievers: tuple[Annotated[RetrieverConfig, TaggedUnion(RETRIEVERS)], ...] = Field(
        default=DEFAULTS, min_length=1
    )
    evaluate: EvaluateConfig = EvaluateConfig()
    planner: PlannerConfig | None = Field(
        default=None,
        description="planners to train for `toolbank planner`; unset: none",
    )
    report: ReportConfig = ReportConfig()
    sweep: dict[str, tuple[Any, ...] | dict[str, Any]] = Field(
        default={},
        description="keys with lists of values, such as `seed: [0, 1, 2]`, or with values by "
        "name; `toolbank sweep` makes a run of each combination",
    )

    @property
    def domain_name(self) -> str:
        """The name of the API in prompts, and of its examples."""
        names = {source.api_name for source in self.sources}
        read = names.pop() if len(names) == 1 else ""
        return self.domain or read or self.name

    @property
    def calls_seed(self) -> int:
        """The seed of the calls that make the bank."""
        return self.seed if self.bank_seed is None else self.bank_seed

    @property
    def other_bank_seed(self) -> dict[str, int]:
        """The bank's seed with its key, if it has one of its own."""
        return {} if self.bank_seed is None else {"bank_seed": self.bank_seed}

    @property
    def other_language(self) -> dict[str, str]:
        """The language with its key, if it is not English."""
        return {"language": self.language} if self.language != ENGLISH else {}

    @property
    def search_models(self) -> tuple[SearchModelConfig, ...]:
        """The models that searches call, of retrievers and the planner."""
        asked = [model for config in self.retrievers for model in config.models]
        if self.planner and self.planner.ask:
            asked.append(self.planner.ask)
        return tuple(asked)

    @property
    def plain_encoder(self) -> EncoderConfig | None:
        """The frozen encoder of `descriptions`, if one runs on this machine."""
        plain = [one for one in self.retrievers if one.baseline == "descriptions"]
        encoders = [encoder for config in plain for encoder in config.encoders]
        return next((one for one in encoders if not one.is_remote), None)

    @property
    def unused_keys(self) -> tuple[str, ...]:
        """The keys without effect, because of a dataset or because an option is not set."""
        origin: tuple[str, ...] = ("dataset",)
        if self.dataset is not None:
            is_judged = "judge" in self.model_fields_set
            origin = _MADE if is_judged else (*_MADE, "judge")
        options = {"asks": self.asks, "missing": self.missing, "verify": self.verify}
        unset = (name for name, config in options.items() if config is None)
        # A run is of one combination of values.
        return *origin, *unset, "sweep"

    def demand_validation(self) -> None:
        """Refuse `patience` without validation queries.

        Raises:
            ValueError: a retriever has it.
        """
        for config in self.retrievers:
            if any(training.patience for training in config.trainings):
                raise ValueError(
                    f"retrievers: {config.label} has patience, which needs validation queries, "
                    "and there are none; set split.validation, or no patience"
                )

    @field_validator("domain")
    @classmethod
    def _check_domain(cls, domain: str) -> str:
        if "/" in domain or "\\" in domain or find_control_character(domain):
            raise ValueError(
                "should be the name of the API, on one line and without a slash"
            )
        return domain

    @field_validator("language")
    @classmethod
    def _check_language(cls, language: str) -> str:
        if language not in LANGUAGES:
            raise ValueError(
                f"texts in {language!r} cannot be checked; choose one of {', '.join(LANGUAGES)}"
            )
        return language

    @field_validator("generate", "asks", "missing")
    @classmethod
    def _set_language(cls, config: Any, info: ValidationInfo) -> Any:
        language = info.data.get("language", ENGLISH)
        if config is None or language == ENGLISH:
            return config
        if config.engine == "rules":
            raise ValueError(
                "the engine rules writes English only; choose a model, or remove `language`"
            )
        return config.in_language(language)

    @model_validator(mode="after")
    def _check_one_origin(self) -> Recipe:
        given = [name for name in _MADE if name in self.model_fields_set]
        if self.dataset is None and not self.sources:
            raise ValueError(
                "a recipe needs `sources`, a list of at least 1 entry, or `dataset`"
            )
        if self.dataset is not None and given:
            raise ValueError(
                f"`dataset` takes the place of `{given[0]}`; remove one of the two"
            )
        return self

    @field_validator("asks", "missing", mode="before")
    @classmethod
    def _inherit_engine(cls, config: Any, info: ValidationInfo) -> Any:
        """Inherit the engine of `generate`."""
        generate = info.data.get("generate")
        if not isinstance(config, dict) or "engine" in config or generate is None:
            return config
        taken = generate.model_fields_set & EngineConfig.model_fields.keys()
        return {key: getattr(generate, key) for key in taken} | config

    @field_validator("split")
    @classmethod
    def _check_train_share(
        cls, split: SplitConfig, info: ValidationInfo
    ) -> SplitConfig:
        made = info.data.get("dataset", True) is None
        if made and split.validation + split.test >= 1:
            raise ValueError(
                f"validation ({split.validation}) and test ({split.test}) leave nothing to train on"
            )
        return split

    @model_validator(mode="after")
    def _refuse_asks_for_held_out_tools(self) -> Recipe:
        if self.asks is not None and self.split.by in ("tool", "family"):
            raise ValueError(
                f"`split.by: {self.split.by}` holds tools back from training, and `asks` writes "
                "queries to train on for each tool; remove one of the two, or hold tools back with "
                "split.withhold_tools, which `asks` respects"
            )
        return self

    @field_validator("retrievers")
    @classmethod
    def _list_baselines(
        cls, configs: tuple[RetrieverConfig, ...], info: ValidationInfo
    ) -> tuple[RetrieverConfig, ...]:
        return add_baselines(configs) if info.data.get("baselines") else configs

    @model_validator(mode="after")
    def _check_retriever_labels(self) -> Recipe:
        fitted: list[str] = []
        for config in self.retrievers:
            if config.label in fitted:
                raise ValueError(
                    f"retrievers: {config.label} is listed more than once; give one a name"
                )
            for needed in config.needs:
                if needed not in fitted:
                    raise ValueError(
                        f"retrievers: {config.label} needs {needed}, which is not listed "
                        "before it"
                    )
            fitted.append(config.label)
        return self

    @model_validator(mode="after")
    def _check_retrievers_fit_data(self) -> Recipe:
        if self.dataset is None and not self.split.validation:
            self.demand_validation()
        by_label = {config.label: config for config in self.retrievers}
        for config in self.retrievers:
            needed = config.needs_vectors
            if needed and not by_label[needed].has_vectors:
                raise ValueError(
                    f"retrievers: {config.label} needs tool vectors, and {needed} "
                    f"({by_label[needed].type}) has none; name a retriever that has them, such as "
                    "one of type tool2vec or descriptions"
                )
            unordered = self.dataset is not None and not self.dataset.ordered
            if config.needs_order and unordered:
                raise ValueError(
                    f"retrievers: {config.label} learns the order in which tools are called; "
                    "set `dataset.ordered: true` if the dataset lists tools in that order, or "
                    f"remove {config.label}"
                )
        return self

    @model_validator(mode="after")
    def _check_planner_fits_data(self) -> Recipe:
        if self.planner is None:
            return self
        if self.dataset is not None and not self.dataset.ordered:
            raise ValueError(
                "planner: plans have an order; set `dataset.ordered: true` if the dataset lists "
                "tools in the order of calls, or remove `planner`"
            )
        labels = {config.label for config in self.retrievers}
        for setting in self.planner.settings:
            for label in sorted(setting.retrievers - labels):
                raise ValueError(
                    f"planner.settings: {setting.label} names {label}, which is not a retriever "
                    "of the recipe; name one, or gold, random or none"
                )
        return self


@dataclass(frozen=True)
class RecipeFile:
    """A recipe, the file that it was read from, and that file's hash.

    `own`: a user's file hides a bundled one of the same name. `typed`: where the user's own
    settings let secrets go. The last `listed` retrievers are in the file or the settings; the
    others were added.
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

        That is next to the recipe, or next to the folder `recipes` that contains it; for a
        bundled recipe, in the current folder.
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
        """Use this recipe while the block runs.

        Questions about secrets name it, `typed` counts, and its own prompts and crawlers are found.
        """
        with command_of(str(self.path), self.typed), looking_in(self.asset_folders):
            yield


def load_recipe(
    name: str,
    settings: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> RecipeFile:
    """Read a recipe by path or bundled name, then apply settings such as `key=value`.

    `values` of keys replace those in the file, as if it had them, and its `sweep`. Relative paths
    start at the file's folder, in `settings` at the current one.

    Raises:
        InputError: no such recipe, or it is not valid; the message names file, line and key.
    """
    if not name.strip():
        raise InputError(
            "The recipe is empty. Give a name, a YAML file or a run folder."
        )
    path, own = _locate(name)
    with reading(path), path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise too_long(str(path))
        text = content.decode("utf-8")
    return _parse(text, path, settings, own=own, values=values)


def recipe_of_dataset(name: str, settings: Sequence[str] = ()) -> RecipeFile:
    """Make the recipe that judges the dataset in a folder, with settings applied.

    Raises:
        InputError: the folder has no known format, or a setting is not valid.
    """
    config = find_format(Path(name))
    called = NO_NAME.sub("-", Path(name).resolve().name).strip("-._") or "dataset"
    data = {
        # A recipe of the dataset is likely to have its name: keep away from that run.
        "name": f"judge-{called}",
        "dataset": {"type": config.type, "path": str(Path(name).resolve())},
    }
    return _parse(dump_mapping(data), Path(name), settings)


def _parse(
    text: str,
    path: Path,
    settings: Sequence[str],
    own: bool = False,
    values: Mapping[str, Any] | None = None,
) -> RecipeFile:
    data, lines = parse_mapping(text, str(path))
    schema = recipe_schema()
    if values is not None:
        data.pop("sweep", None)
        for key, value in values.items():
            _assign(data, tuple(key.split(".")), value, f"sweep: {key}")
    data = anchor_paths(data, schema, path.parent)
    overrides = [_apply(data, setting) for setting in settings]
    with explaining(schema, str(path), lines, overrides):
        recipe = Recipe.model_validate(anchor_paths(data, schema, Path.cwd()))
    if _is_of_run(path):
        recipe = place_replies(recipe, path, path.parent)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    listed = len(data.get("retrievers") or ())
    typed = tuple(_typed_routes(recipe, listed, overrides))
    return RecipeFile(recipe, path, sha256, own, typed, listed)


def read_origin(data: dict[str, Any], path: Path) -> Recipe:
    """Read what an origin.json says of its recipe.

    Raises:
        InputError: it is not valid.
    """
    with explaining(recipe_schema(), str(path)):
        return Recipe.model_validate(data)


def place_replies(recipe: Recipe, path: Path, folder: Path) -> Recipe:
    """Make the replies of searches start at the run folder; `path` is the recipe's file.

    Version 0.7.0 kept replies next to the recipe, and wrote whole paths to a run's recipe.yaml:
    a run goes on with a copy of those.

    Raises:
        InputError: the recipe names a file outside of the run folder.
    """
    home = Path(os.path.realpath(path.parent))
    inside = Path(os.path.realpath(folder))
    names: dict[Path, str] = {}

    def place(config: SearchModelConfig) -> SearchModelConfig:
        replies = Path(os.path.expanduser(config.replies))  # noqa: PTH111 - no error
        earlier = Path(os.path.normpath(home / replies))
        if replies.is_absolute() and earlier.is_relative_to(inside):
            replies = earlier.relative_to(inside)
        elif replies.is_absolute() and _is_of_run(path):
            replies = Path(
                names.setdefault(earlier, _free_name(replies, names.values()))
            )
        target = Path(os.path.realpath(inside / replies))
        if target == inside or not target.is_relative_to(inside):
            raise InputError(
                f"{path}: {config.section}.replies: {config.replies} is not in the run folder "
                f"{folder}. Replies are kept there: write a file name, such as `replies: "
                f"{replies.name or 'replies.sqlite'}`. Copy a file with earlier replies to that "
                f"name in {path.parent}."
            )
        if target == config.replies:
            return config
        return config.keep_replies(target, None if earlier == target else earlier)

    return _change_search_models(recipe, place)


def _free_name(replies: Path, taken: Iterable[str]) -> str:
    """Return the name of a file, or if it is taken one such as replies-2.sqlite."""
    file = replies if replies.suffix else Path("replies.sqlite")
    numbered = (f"{file.stem}-{number}{file.suffix}" for number in itertools.count(2))
    taken = {"journal.sqlite", *taken}
    return next(n for n in itertools.chain([file.name], numbered) if n not in taken)


def dump_recipe(recipe: Recipe, folder: Path | None = None) -> str:
    """Write a recipe as YAML that `load_recipe` reads back to an equal one.

    Replies in the run folder `folder` are named relative to it.
    """
    inside = None if folder is None else Path(os.path.realpath(folder))

    def name(config: SearchModelConfig) -> SearchModelConfig:
        if inside is None or not config.replies.is_relative_to(inside):
            return config
        return config.keep_replies(config.replies.relative_to(inside))

    named = _change_search_models(recipe, name)
    return dump_mapping(named.model_dump(mode="json", exclude=set(recipe.unused_keys)))


@cache
def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema of a recipe; do not change it."""
    return Recipe.model_json_schema()


def _is_of_run(path: Path) -> bool:
    """Return whether this is the recipe that a run wrote to its folder."""
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
    kind: AssetKind = "recipes"
    file = name if path.suffix else f"{name}.yaml"
    if path.parent == Path() and has_asset(kind, file):
        asset = find_asset(kind, file)
        return asset.path, asset.own
    if path.exists() or path.parent != Path():
        why = "not a file" if path.exists() else "no such recipe file or run folder"
        why = "not the folder of a run" if path.is_dir() else why
        raise InputError(f"{name}: {why}. Give a recipe's YAML file.")
    raise InputError(
        f"{name}: no such file, and no bundled recipe of this name. {name_others(kind, file)}"
    )


def _apply(data: dict[str, Any], setting: str) -> tuple[str, ...]:
    key, equals, text = setting.partition("=")
    parts = tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise InputError(
            f"--set {setting}: write key=value, such as --set generate.queries=500."
        )
    value = parse_value(text, f"--set {key}")
    return _assign(data, parts, value, f"--set {setting}")


def _assign(
    data: dict[str, Any], parts: tuple[str, ...], value: Any, where: str
) -> tuple[str, ...]:
    """Set a key of a recipe; returns it with numbers in place of names."""
    target: Any = data
    keys: list[str] = []
    for part in parts:
        is_dict = isinstance(target, dict)
        at: Any = part if is_dict else _find_item(target, part, where)
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
    """Find which secrets may go to which hosts, because the user typed both.

    `listed` retrievers are the file's own. The default key needs no typing; other variables do,
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
    """Find the parts of a recipe that call a model, each with the keys that lead to it."""
    # Added baselines come first.
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
        if isinstance(part, Recipe) and part.verify:
            for at, grader in enumerate(part.verify.graders):
                yield (*path, "verify", "graders", str(at)), grader


def _find_item(target: Any, part: str, where: str) -> int:
    """Find an item of a list by its number, or by a name or type that no other has."""
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
    raise InputError(f"{where}: the recipe has nothing at {part!r}.")
