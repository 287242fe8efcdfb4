"""The kinds of an extension point, ours and those of plug-ins, and their configurations as one pydantic type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    BaseModel,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from toolbank.config.base import IN_FILE, IN_FILE_PATTERN, is_in_file
from toolbank.system.errors import InputError

K = TypeVar("K")


@dataclass(frozen=True)
class InFile(Generic[K]):
    """Kinds that are classes in Python files: `load` runs the file, `config` is read without it."""

    config: type[BaseModel]
    load: Callable[[str], K]


@dataclass(frozen=True, eq=False)
class Registry(Generic[K]):
    """All kinds of `what` (such as "engine"); each is an object of the type `kind`.

    `own` maps the names of the built-in kinds to "module:NAME"; the module is imported when its
    kind is used. Another package adds a kind with an entry point of its name in the group `group`.
    With `in_file`, the name ./FILE.py:CLASS is a class in a file of the user.
    """

    what: str
    group: str
    kind: type[K]
    own: Mapping[str, str]
    in_file: InFile[K] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names: the built-in kinds in their order, then those of other packages."""
        others = metadata.entry_points(group=self.group).names
        return *self.own, *sorted(others - self.own.keys())

    def find(self, name: str, where: str) -> K:
        """Load a kind; `where` is the key that names it, for messages.

        Raises:
            InputError: there is none of this name, or it cannot be loaded.
        """
        try:
            return self.load(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def load(self, name: str) -> K:
        """Load a kind.

        Raises:
            InputError: there is none of this name, or it cannot be loaded.
        """
        if self.in_file and is_in_file(name):
            return self.in_file.load(name)
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            found: K = getattr(import_module(module), attribute)
            return found
        entries = [*metadata.entry_points(group=self.group, name=name)]
        if not entries:
            near = get_close_matches(name, self.names, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InputError(
                f"there is no {self.what} {name!r}.{hint} There are: {', '.join(self.names)}."
            )
        try:
            loaded = entries[0].load()
        except Exception as error:
            raise self._plugin_error(
                entries[0], f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(loaded, self.kind):
            found_type = type(loaded).__name__
            raise self._plugin_error(
                entries[0], f"it is a {found_type}, not a {self.kind.__name__}"
            )
        return loaded

    def _plugin_error(self, entry: metadata.EntryPoint, why: str) -> InputError:
        package = entry.dist.name if entry.dist else entry.module
        return InputError(
            f"the {self.what} {entry.name!r} of the package {package} cannot be loaded from "
            f"{entry.value} ({why}). Update {package}, or uninstall it."
        )


@dataclass(frozen=True)
class TaggedUnion:
    """Reads a value as the configuration of the kind that its key `type` names.

    A bare name is the kind with its defaults: `bm25` for `{type: bm25}`.

    It annotates the kinds' common base, for type checkers:
    `sources: tuple[Annotated[SourceConfig, TaggedUnion(SOURCES)], ...]`. Every kind has its model
    as `config`, whose `type` is a Literal of the kind's name. A kind of another package that cannot
    be loaded is an error only if a value names it.

    With `default`, a value without a `type` is of that kind, and a bare name is its key `text`.
    """

    registry: Registry[Any]
    default: str = ""
    text: str = "type"

    def __get_pydantic_core_schema__(
        self, _: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the union."""
        configs = [self._find_config(name) for name in self.registry.names]
        union: Any = configs[0]
        for config in configs[1:]:
            union |= config
        if len(configs) > 1:
            union = Annotated[union, Field(discriminator="type")]
        schema: Any = handler.generate_schema(union)
        if self.registry.in_file:
            found = handler.generate_schema(self.registry.in_file.config)
            schema["choices"][IN_FILE] = found
            schema["discriminator"] = _find_tag
        return no_info_before_validator_function(self._expand, schema)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the union, in which a bare name is valid, too."""
        if in_file := self.registry.in_file:
            union: Any = {**schema["schema"], "discriminator": "type"}
            schema = no_info_before_validator_function(self._expand, union)
        found = handler(schema)
        if self.default:
            found["discriminator"]["default"] = self.default
        elif "oneOf" in found:
            found["oneOf"].append({"enum": list(self.registry.names)})
        if in_file:
            found["oneOf"].append({"type": "string", "pattern": IN_FILE_PATTERN})
        return found

    def _expand(self, value: Any) -> Any:
        if isinstance(value, str):
            value = {self.text: value}
        if self.default and isinstance(value, dict):
            value = {"type": self.default, **value}
        return value

    def _find_config(self, name: str) -> type[BaseModel]:
        try:
            config: type[BaseModel] = self.registry.load(name).config
        except InputError as error:
            return _broken(name, str(error))
        return config


def _find_tag(value: Any) -> str | None:
    kind = (
        value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    )
    if kind is None:
        return None
    return IN_FILE if is_in_file(str(kind)) else str(kind)


def _broken(name: str, message: str) -> type[BaseModel]:
    """Make a model that refuses every value with this message."""

    def refuse(_: Any) -> Any:
        raise ValueError(message)

    tag: Any = Literal[name]
    validators: Any = {"refuse": model_validator(mode="before")(refuse)}
    return create_model(f"Broken_{name}", __validators__=validators, type=(tag, ...))
