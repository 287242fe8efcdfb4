"""The base of every configuration: frozen, strict about unknown keys, with marked settings, choices and paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    JsonValue,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from toolbank.system.errors import InputError


class Config(BaseModel):
    """A part of a recipe. Unknown keys are errors; values can't be changed after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _take_no_truth_for_a_number(cls, data: Any) -> Any:
        """Have true and false be words where a number belongs: they would count as 1 and 0."""
        if not isinstance(data, dict):
            return data
        numbers = {
            name for name, field in cls.model_fields.items() if _is_number(field)
        }
        return {k: _as_word(v) if k in numbers else v for k, v in data.items()}


def renamed(**keys: str) -> ConfigDict:
    """For a subclass's `model_config`: what keys of an earlier version are called now."""
    return ConfigDict(json_schema_extra={"renamed": dict(keys)})


def _is_number(field: Any) -> bool:
    types = _types(field.annotation)
    return bool(types & {int, float}) and not types & {bool, str, Path, Any}


def _types(annotation: Any) -> set[Any]:
    inner = [one for one in get_args(annotation) if one is not ...]
    return set().union(*map(_types, inner)) if inner else {annotation}


def _as_word(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [_as_word(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class UnionChoice:
    """Beside a union: read a value as the first kind that it looks like, and as no other.

    So what is wrong inside a kind is the only error. `message` is that of a value which looks
    like none: `Annotated[Literal["auto"] | int, UnionChoice("should be a whole number, or 'auto'")]`.
    """

    message: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A union whose tag is the position of the kind."""
        kinds = get_args(source)

        def choose(value: object) -> str | None:
            fits = (str(n) for n, kind in enumerate(kinds) if _looks_like(value, kind))
            return next(fits, None)

        return core_schema.tagged_union_schema(
            {str(n): handler.generate_schema(kind) for n, kind in enumerate(kinds)},
            choose,
            custom_error_type="choice",
            custom_error_message=self.message,
        )


def _looks_like(value: object, kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is Path:
        return isinstance(value, str | Path)
    if issubclass(kind, BaseModel):
        return isinstance(value, Mapping | kind)
    # A number may be given as text, as by `--set`.
    return isinstance(value, kind | float) or str(value).lstrip("-").isdecimal()


T = TypeVar("T")


class _Transport:
    """Marks a field whose value says how a result is come by, and not what it is."""


Transport = Annotated[T, _Transport()]
"""Type of a setting that shapes nothing, such as `timeout: Transport[float] = 120`."""


def shape(config: BaseModel) -> dict[str, Any]:
    """The settings that shape a result, as JSON.

    Left out at any depth of models, lists and dicts are fields of type `Transport`, and paths: a
    file counts by its content, wherever it lies.

    Raises:
        TypeError: a field's type has `Transport` within it, where it would say nothing.
    """
    settings = config.model_dump(mode="json")
    return {
        name: _shape(value, settings[name])
        for name, value in config
        if not is_transport(config, name) and not isinstance(value, Path)
    }


def _shape(value: Any, as_json: Any) -> Any:
    if isinstance(value, BaseModel):
        return shape(value)
    if isinstance(value, tuple | list):
        pairs = zip(value, as_json, strict=True)
        return [_shape(*pair) for pair in pairs if not isinstance(pair[0], Path)]
    if isinstance(value, dict):
        entries = zip(value.values(), as_json.items(), strict=True)
        return {
            key: _shape(entry, entry_as_json)
            for entry, (key, entry_as_json) in entries
            if not isinstance(entry, Path)
        }
    return as_json


def is_transport(config: BaseModel, name: str) -> bool:
    """Whether a setting says how a result is come by, and not what it is."""
    field = type(config).model_fields[name]
    if _has_mark(field.annotation):
        raise TypeError(
            f"{type(config).__name__}.{name}: Transport has to be around the whole type, such as "
            "Transport[int | None]."
        )
    return any(isinstance(mark, _Transport) for mark in field.metadata)


def _has_mark(annotation: Any) -> bool:
    return isinstance(annotation, _Transport) or any(
        _has_mark(part) for part in get_args(annotation)
    )


Schema = Mapping[str, Any]


def resolve(schema: Schema, root: Schema) -> Schema:
    """A schema in place of a reference to it, and of a choice between it and null alone."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return resolve(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root)
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    return resolve(kinds[0], root) if len(kinds) == 1 else schema


def kinds_of(schema: Schema, value: Any) -> list[Schema]:
    """The schemas that a value may fit, where there is a choice: the one that its tag names."""
    choice = schema.get("discriminator", {})
    if tagged := choice.get("mapping"):
        tag = choice.get("default")
        if isinstance(value, Mapping):
            tag = value.get("type", tag)
        known = isinstance(tag, str) and tag in tagged
        return [{"$ref": tagged[tag]}] if known else [{}]
    return list(schema.get("oneOf") or schema.get("anyOf") or ())


NAME_OR_PATH: dict[str, JsonValue] = {"format": "name-or-path"}
"""For a field's `json_schema_extra`: a name, or a path where it begins with a dot or `~`."""

ADDRESS_OR_PATH: dict[str, JsonValue] = {"format": "address-or-path"}
"""For a field's `json_schema_extra`: an address such as https://..., or else a path."""


PATH_IN_RUN: dict[str, JsonValue] = {"format": "path-in-run"}
"""For a field's `json_schema_extra`: a file that a run writes, relative to the run folder."""


def anchor_paths(data: Any, schema: Schema, folder: Path) -> Any:
    """The data with relative paths made to start at `folder`.

    What is a path follows from the model's JSON Schema: its fields of type `Path`.

    Raises:
        InputError: a text can't be the path of a file.
    """
    return _anchor(data, schema, schema, folder)


def _anchor(value: Any, schema: Schema, root: Schema, folder: Path) -> Any:
    schema = resolve(schema, root)
    if kinds := kinds_of(schema, value):
        if not any(kind.get("const") == value for kind in kinds):
            for kind in kinds:
                value = _anchor(value, kind, root, folder)
    elif isinstance(value, dict):
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        parts = {key: named.get(key) or rest or {} for key in value}
        value = {k: _anchor(v, parts[k], root, folder) for k, v in value.items()}
    elif isinstance(value, list) and "items" in schema:
        value = [_anchor(item, schema["items"], root, folder) for item in value]
    elif isinstance(value, str):
        value = _anchor_text(value, schema.get("format"), folder)
    return value


def _anchor_text(text: str, form: str | None, folder: Path) -> str:
    if form == "name-or-path" and text.startswith((".", "~")):
        form = "path"
    if form == "address-or-path" and "://" not in text:
        form = "path"
    if form != "path":
        return text
    try:
        return str((folder / Path(text).expanduser()).resolve())
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{text!r} can't be the path of a file ({error}).") from error


def paths_in(value: Any) -> list[Path]:
    """The paths among the settings of a model, at any depth."""
    if isinstance(value, Path):
        return [value]
    if isinstance(value, BaseModel):
        return paths_in([inner for _, inner in value])
    if isinstance(value, dict):
        return paths_in(list(value.values()))
    if isinstance(value, list | tuple):
        return [path for inner in value for path in paths_in(inner)]
    return []
