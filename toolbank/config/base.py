"""The base of every configuration: frozen models that refuse unknown keys, and their paths."""

from __future__ import annotations

import re
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
    def _refuse_booleans_as_numbers(cls, data: Any) -> Any:
        """Turn true and false into words in number fields; pydantic reads them as 1 and 0."""
        if not isinstance(data, dict):
            return data
        numbers = {
            name for name, field in cls.model_fields.items() if _is_number(field)
        }
        return {k: _as_word(v) if k in numbers else v for k, v in data.items()}


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
    """Annotate a union to read a value as the first member that it looks like, and as no other.

    An error inside that member is then the only error. `message` is the error for a value that
    looks like no member, as in
    `Annotated[Literal["auto"] | int, UnionChoice("should be a whole number, or 'auto'")]`.
    """

    message: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return a union whose tag is the position of the member."""
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
    """Marks a field that says how a result is obtained, not what it is."""


Transport = Annotated[T, _Transport()]
"""Type of a setting that shapes no result, such as `timeout: Transport[float] = 120`.

It has to be around the whole type: `Transport[int | None]`.
"""


def shape(config: BaseModel) -> dict[str, Any]:
    """Return the settings that shape a result, as JSON.

    Skips fields of type `Transport` and paths at any depth: a file counts by its content,
    wherever it is. Of a class in a file, the name remains.
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
    if isinstance(value, str) and is_in_file(value):
        return value.rpartition(":")[2]
    return as_json


def is_transport(config: BaseModel, name: str) -> bool:
    """Return whether a setting says how a result is obtained, not what it is."""
    # A model that allows extra keys has no field for them.
    field = type(config).model_fields.get(name)
    return field is not None and any(isinstance(m, _Transport) for m in field.metadata)


IN_FILE = "FILE.py:CLASS"
"""The tag of all types that are a class in a Python file."""

IN_FILE_PATTERN = r"^[^\x00\n]+\.py:[A-Za-z]\w*$"


def is_in_file(kind: str) -> bool:
    """Return whether a `type` is a class in a Python file, such as ./mine.py:Mine."""
    return re.fullmatch(IN_FILE_PATTERN, kind) is not None


Schema = Mapping[str, Any]


def resolve(schema: Schema, root: Schema) -> Schema:
    """Follow references, and choices between a schema and null, to the schema itself."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return resolve(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root)
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    return resolve(kinds[0], root) if len(kinds) == 1 else schema


def kinds_of(schema: Schema, value: Any) -> list[Schema]:
    """Return the members of a union that a value may fit: with tags, the one that its tag names."""
    choice = schema.get("discriminator", {})
    if tagged := choice.get("mapping"):
        if isinstance(value, str) and is_in_file(value) and IN_FILE in tagged:
            return [{"format": "path"}]
        tag = choice.get("default")
        if isinstance(value, Mapping):
            tag = value.get("type", tag)
        if isinstance(tag, str) and is_in_file(tag):
            tag = IN_FILE
        known = isinstance(tag, str) and tag in tagged
        return [{"$ref": tagged[tag]}] if known else [{}]
    return list(schema.get("oneOf") or schema.get("anyOf") or ())


NAME_OR_PATH: dict[str, JsonValue] = {"format": "name-or-path"}
"""For a field's `json_schema_extra`: a name, or a path if it begins with a dot or `~`."""

ADDRESS_OR_PATH: dict[str, JsonValue] = {"format": "address-or-path"}
"""For a field's `json_schema_extra`: a URL, or else a path."""

PATH_IN_RUN: dict[str, JsonValue] = {"format": "path-in-run"}
"""For a field's `json_schema_extra`: a file that a run writes, relative to the run folder."""


def anchor_paths(data: Any, schema: Schema, folder: Path) -> Any:
    """Make relative paths start at `folder`; the JSON Schema says which texts are paths.

    Raises:
        InputError: a text cannot be a path.
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
        raise InputError(f"{text!r} cannot be a path ({error}).") from error


def paths_in(value: Any) -> list[Path]:
    """List the paths among the settings of a model, at any depth."""
    if isinstance(value, Path):
        return [value]
    if isinstance(value, BaseModel):
        return paths_in([inner for _, inner in value])
    if isinstance(value, dict):
        return paths_in(list(value.values()))
    if isinstance(value, list | tuple):
        return [path for inner in value for path in paths_in(inner)]
    return []
