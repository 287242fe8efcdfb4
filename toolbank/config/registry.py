"""The kinds of an extension point, ours and those of plug-ins, and their configurations as one pydantic type."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

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

from toolbank.system.errors import InputError
from toolbank.system.terminal import print_message

K = TypeVar("K")

# The names of ours that were already looked for among those of other packages, by group and path.
_looked_for: set[tuple[str, ...]] = set()


@dataclass(frozen=True, eq=False)
class Registry(Generic[K]):
    """All kinds of `what` (such as "engine"), each a description of the type `kind`.

    `own` says where each of ours lies, as "module:NAME"; a module is read when its kind is asked
    for. Another package brings one by an entry point of its name in the group `group`.
    """

    what: str
    group: str
    kind: type[K]
    own: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that `find` takes: ours in their order, then those of other packages."""
        others = metadata.entry_points(group=self.group).names
        return *self.own, *sorted(others - self.own.keys())

    def find(self, name: str, where: str) -> K:
        """The kind of this name; `where` is the key that names it, for messages.

        Raises:
            InputError: as `load` does.
        """
        if name in self.own:
            self._note_hidden(name)
        try:
            return self.load(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def load(self, name: str) -> K:
        """The kind of this name.

        Raises:
            InputError: there is none, several packages bring it, it can't be imported, or what
                is there is of another type.
        """
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            found: K = getattr(import_module(module), attribute)
            return found
        _, entry = self._find_entry(name)
        try:
            foreign = entry.load()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise self.refuse(
                name, f"can't be loaded from {entry.value} ({_describe(error)})"
            ) from error
        if not isinstance(foreign, self.kind):
            raise self.refuse(
                name,
                f"is no {self.kind.__name__}: {entry.value} is of type "
                f"{type(foreign).__name__!r}",
            )
        called = getattr(foreign, "name", name)
        if called != name:
            raise self.refuse(name, f"calls itself {called!r}")
        return foreign

    def refuse(self, name: str, why: str) -> InputError:
        """The error that a kind of another package can't be used, with the remedy."""
        package, _ = self._find_entry(name)
        return InputError(
            f"the {self.what} {name!r} of the package {package} {why}. Update {package}, or "
            "uninstall it."
        )

    def _note_hidden(self, name: str) -> None:
        """Say, once, that a package brings a kind that goes by the name of one of ours."""
        place = (self.group, name, *sys.path)
        if place in _looked_for:
            return
        _looked_for.add(place)
        for package in self._packages(name):
            print_message(
                f"the {self.what} {name!r} of the package {package} is not used: toolbank has one "
                f"of that name, which goes before. Have {package} give its own another name."
            )

    def _packages(self, name: str) -> dict[str, metadata.EntryPoint]:
        entries = metadata.entry_points(group=self.group, name=name)
        return {
            entry.dist.name if entry.dist else entry.module: entry for entry in entries
        }

    def _find_entry(self, name: str) -> tuple[str, metadata.EntryPoint]:
        """The package that brings a kind, and its entry point."""
        packages = self._packages(name)
        if not packages:
            near = get_close_matches(name, self.names, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InputError(
                f"there is no {self.what} {name!r}.{meant} "
                f"There are: {', '.join(self.names)}."
            )
        if len(packages) > 1:
            raise InputError(
                f"the packages {' and '.join(sorted(packages))} both bring {self.what} "
                f"{name!r}. Uninstall all but one."
            )
        [found] = packages.items()
        return found


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True)
class TaggedUnion:
    """Has pydantic read a value as the configuration of the kind that its key `type` names.

    A name alone stands for the kind with its defaults: `bm25` for `{type: bm25}`.

    It stands beside the kinds' common base, for type checkers:
    `sources: tuple[Annotated[SourceConfig, TaggedUnion(SOURCES)], ...]`. Every kind has its model
    as `config`, whose `type` is a Literal of the kind's name. A kind of another package that can't
    be loaded is an error only where a value names it.

    With `default`, a value without a `type` is of that kind, and a name alone is its key `text`.
    """

    registry: Registry[Any]
    default: str = ""
    text: str = "type"

    def __get_pydantic_core_schema__(
        self, _: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The schema of the union, which also gives its JSON Schema."""
        configs = [self._find_config(name) for name in self.registry.names]
        union: Any = configs[0]
        for config in configs[1:]:
            union |= config
        if len(configs) > 1:
            union = Annotated[union, Field(discriminator="type")]
        return no_info_before_validator_function(
            self._expand, handler.generate_schema(union)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The JSON Schema of the union, for editors, in which a name alone is right, too."""
        found = handler(schema)
        if self.default:
            found["discriminator"]["default"] = self.default
        elif "oneOf" in found:
            found["oneOf"].append({"enum": list(self.registry.names)})
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
            tag = config.model_fields.get("type")
            if tag is None or name not in get_args(tag.annotation):
                raise self.registry.refuse(
                    name, f"has a configuration without `type: Literal[{name!r}]`"
                )
        except InputError as error:
            return _broken(name, str(error))
        return config


def _broken(name: str, message: str) -> type[BaseModel]:
    """A model that no value fits; what is wrong with the kind is the error."""

    def refuse(_: Any) -> Any:
        raise ValueError(message)

    tag: Any = Literal[name]
    validators: Any = {"refuse": model_validator(mode="before")(refuse)}
    return create_model(f"Broken_{name}", __validators__=validators, type=(tag, ...))
