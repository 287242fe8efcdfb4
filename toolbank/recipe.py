"""A recipe: one YAML that says all of a run."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, model_validator

from toolbank.assets import AssetKind, find_asset
from toolbank.config import Config
from toolbank.errors import InputError
from toolbank.evaluation.config import EvaluateConfig
from toolbank.generate.config import GenerateConfig
from toolbank.judge.config import JudgeConfig
from toolbank.report.config import ReportConfig
from toolbank.retrievers.config import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    RetrieverConfig,
    Tool2VecConfig,
)
from toolbank.sources.config import SourceConfig
from toolbank.split import SplitConfig

_PATHS = (("generate", "replies"), ("evaluate", "on"), ("judge", "against"))


class Recipe(Config):
    """Everything that shapes a run. The keys are the names of the stages."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: str = Field(
        default="", description="picks prompts/examples/<domain>.jsonl; unset: the name"
    )
    seed: int = 0
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    generate: GenerateConfig = GenerateConfig()
    split: SplitConfig = SplitConfig()
    judge: JudgeConfig = JudgeConfig()
    retrievers: tuple[RetrieverConfig, ...] = (
        Bm25Config(),
        DescriptionsConfig(),
        NearestConfig(),
        Tool2VecConfig(),
    )
    evaluate: EvaluateConfig = EvaluateConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _retrievers_differ(self) -> Recipe:
        types = [config.type for config in self.retrievers]
        for kind in types:
            if types.count(kind) > 1:
                raise ValueError(f"retrievers: {kind} is listed more than once")
        return self


@dataclass(frozen=True)
class RecipeFile:
    """A recipe and where it was read: the file, its hash, and whether it's the user's own."""

    recipe: Recipe
    path: Path
    sha256: str
    notes: tuple[str, ...] = ()


def load_recipe(name: str, settings: Sequence[str] = ()) -> RecipeFile:
    """Read a recipe by path or by the name of one that comes along, then apply `key=value`s.

    Relative paths in the file start at the file's folder, those in `settings` at the
    current one.

    Raises:
        InputError: no such recipe, or it is not valid; the message names file, line and key.
    """
    path, notes = _locate(name)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't read ({error}).") from error
    data, lines = _parse(text, str(path))
    _anchor_paths(data, path.parent)
    overrides = [_apply(data, setting) for setting in settings]
    recipe = _validate(data, str(path), lines, overrides)
    return RecipeFile(recipe, path, hashlib.sha256(content).hexdigest(), notes)


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML that `load_recipe` reads back to an equal one."""
    data = recipe.model_dump(mode="json", exclude_none=True)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=88)


def recipe_schema() -> dict[str, Any]:
    """JSON Schema of a recipe, for editors."""
    return Recipe.model_json_schema()


def _locate(name: str) -> tuple[Path, tuple[str, ...]]:
    path = Path(name)
    if path.is_dir() and (path / "recipe.yaml").is_file():
        path = path / "recipe.yaml"
    if path.is_file():
        return path, ()
    if path.suffix in (".yaml", ".yml") and path.parent != Path():
        raise InputError(f"{name}: no such file.")
    kind: AssetKind = "recipes"
    asset = find_asset(kind, name if path.suffix else f"{name}.yaml")
    return asset.path, (f"{asset.path}: yours, used",) if asset.own else ()


_KeyPath = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice and knows only YAML 1.2's booleans.

    In YAML 1.1 the key `on` of `evaluate.on` reads as true.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        letter: [
            (tag, regex)
            for tag, regex in resolvers
            if not tag.endswith(":bool") or letter in "tTfF"
        ]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if isinstance(key, str) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is given twice", key_node.start_mark
            )
        if isinstance(key, str):
            seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str, where: str) -> tuple[dict[str, Any], dict[_KeyPath, int]]:
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{where}{line}: not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{where}: not valid YAML: {error}.") from error
    if not isinstance(data, dict):
        raise InputError(
            f"{where}: a recipe is a mapping of keys such as name, sources and generate."
        )
    lines: dict[_KeyPath, int] = {}
    _note_lines(root, (), lines)
    return data, lines


def _note_lines(
    node: yaml.Node | None, path: _KeyPath, lines: dict[_KeyPath, int]
) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _note_lines(value, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            here = (*path, position)
            lines[here] = value.start_mark.line + 1
            _note_lines(value, here, lines)


def _anchor_paths(data: dict[str, Any], folder: Path) -> None:
    for stage, key in _PATHS:
        section = data.get(stage)
        if not isinstance(section, dict) or key not in section:
            continue
        value = section[key]
        if isinstance(value, list):
            section[key] = [_anchored(item, folder) for item in value]
        elif (stage, key, value) != ("judge", "against", "draft"):
            section[key] = _anchored(value, folder)


def _anchored(value: Any, folder: Path) -> Any:
    return str((folder / value).resolve()) if isinstance(value, str) else value


def _apply(data: dict[str, Any], setting: str) -> tuple[str, ...]:
    key, equals, text = setting.partition("=")
    parts = tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise InputError(
            f"--set {setting}: write --set key=value, such as --set generate.queries=500."
        )
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise InputError(f"--set {setting}: the value is not valid YAML.") from error
    target: Any = data
    for part in parts[:-1]:
        if isinstance(target, dict):
            target = target.setdefault(part, {})
        else:
            target = _item(target, part, setting)
    if isinstance(target, dict):
        target[parts[-1]] = value
    else:
        _item(target, parts[-1], setting)
        target[int(parts[-1])] = value
    if len(parts) > 1 and (parts[0], parts[1]) in _PATHS:
        _anchor_paths({parts[0]: data[parts[0]]}, Path.cwd())
    return parts


def _item(target: Any, part: str, setting: str) -> Any:
    if isinstance(target, list) and part.isdecimal() and int(part) < len(target):
        return target[int(part)]
    raise InputError(f"--set {setting}: there is nothing at {part!r} in the recipe.")


def _validate(
    data: dict[str, Any],
    where: str,
    lines: Mapping[_KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> Recipe:
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        found = error.errors()
        inner = [problem for problem in found if problem["type"] != "too_short"]
        problems = [
            _explain(problem, where, lines, overrides) for problem in inner or found
        ]
        raise InputError("\n".join(dict.fromkeys(problems))) from error
    for path in (recipe.generate.replies, *recipe.evaluate.on, recipe.judge.against):
        if isinstance(path, Path) and not path.is_file():
            raise InputError(f"{where}: it names {path}, and there is no such file.")
    return recipe


def _explain(
    problem: Any,
    where: str,
    lines: Mapping[_KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    location, schema = _follow(problem["loc"])
    key = ".".join(str(part) for part in location)
    place = where
    if tuple(str(part) for part in location) in overrides:
        place = f"--set {key}"
    else:
        known = next(
            (
                lines[location[:n]]
                for n in range(len(location), 0, -1)
                if location[:n] in lines
            ),
            None,
        )
        if known is not None:
            place = f"{where}, line {known}"
    if problem["type"] == "extra_forbidden":
        valid = sorted(schema.get("properties", {}))
        near = difflib.get_close_matches(str(location[-1]), valid, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(valid)}."
        )
        return f"{place}: unknown key {key!r}; {hint}"
    message = problem["msg"].removeprefix("Value error, ").replace("tuple", "list")
    value = problem["input"]
    shown = ""
    if isinstance(value, str | int | float) and "key" not in str(location[-1:]):
        shown = f" (got {str(value)[:80]!r})"
    return f"{place}: {key + ': ' if key else ''}{message}{shown}"


def _follow(loc: Sequence[str | int]) -> tuple[_KeyPath, dict[str, Any]]:
    """Follow a pydantic location through the JSON Schema; drop the tags of unions.

    Gives the keys as the user wrote them and the schema that holds the last one.
    """
    root = recipe_schema()
    schema: dict[str, Any] = root
    holder = root
    path: list[str | int] = []
    for part in loc:
        schema = _resolved(schema, root)
        mapping = schema.get("discriminator", {}).get("mapping", {})
        if part in mapping:
            schema = _resolved({"$ref": mapping[part]}, root)
            continue
        if isinstance(part, int):
            path.append(part)
            schema = schema.get("items", {})
        elif part in schema.get("properties", {}):
            path.append(part)
            holder, schema = schema, schema["properties"][part]
        elif "properties" in schema:
            path.append(part)
            holder, schema = schema, {}
    return tuple(path), holder


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: dict[str, Any] = root["$defs"][reference.rsplit("/", 1)[-1]]
    return resolved
