"""The configurations of all kinds of an extension point as one pydantic type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

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

from toolbank.config.registry import Registry
from toolbank.system.errors import InputError


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
