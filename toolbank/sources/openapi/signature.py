"""What an operation takes: one JSON Schema, and where each of its properties goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolbank.bank.records import Argument, Place
from toolbank.sources.openapi.bodies import Body
from toolbank.sources.openapi.keywords import Schema
from toolbank.sources.openapi.parameters import Parameter
from toolbank.sources.openapi.schemas import Schemas


class Signature:
    """Gathers the properties of one operation; no two have the same name."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._properties: dict[str, Schema] = {}
        self._required: list[str] = []
        self._arguments: list[Argument] = []
        self._more: Schema = {}
        self._parts: list[Schema] = []

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Where each property goes."""
        return tuple(self._arguments)

    def add(self, parameters: Sequence[Parameter]) -> None:
        """Add parameters; one of another place whose name is taken has its place behind it."""
        for one in parameters:
            name = self._put(one.property, one.place, one.schema, required=one.required)
            self._arguments.append(
                Argument(
                    property=name,
                    place=one.place,
                    name=one.name,
                    style=one.style,
                    explode=one.explode,
                )
            )

    def add_body(self, body: Body) -> None:
        """Add a body's properties, or all of it as one."""
        if body.flat is None:
            name = self._put(body.name, "body", body.schema, required=body.required)
            self._arguments.append(Argument(property=name, place=body.place))
            return
        flat, names = body.flat, dict[str, str]()
        for name, schema in flat.properties.items():
            if schema.get("readOnly") is True:
                continue  # it is in responses only
            names[name] = self._put(name, body.place, schema, required=False)
            style, explode = body.styles.get(name, ("", None))
            self._arguments.append(
                Argument(
                    property=names[name],
                    place=body.place,
                    name=name,
                    style=style,
                    explode=explode,
                )
            )
        required = [names[name] for name in flat.required if name in names]
        if body.required:
            self._required += required
        elif required:
            self._more["dependentRequired"] = {
                name: [other for other in required if other != name]
                for name in names.values()
                if required != [name]
            }
        rules = [_renamed(rule, names) for rule in flat.rules]
        for rule in rules:
            if rule.keys() & self._more.keys():
                self._more = {"allOf": rules}
                break
            self._more |= rule
        if flat.rest is False:
            self._more["additionalProperties"] = False
        elif flat.rest is not True:
            self._more["additionalProperties"] = flat.rest
            self._parts.append(flat.rest)

    def schema(self, place: str) -> Schema:
        """The JSON Schema of all, with the `$defs` that it needs; `place` is the operation's."""
        schema: Schema = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = list(dict.fromkeys(self._required))
        schema |= self._more
        return self._schemas.complete(
            schema, [*self._properties.values(), *self._parts], place
        )

    def _put(self, wish: str, place: Place, schema: Schema, *, required: bool) -> str:
        name, number = wish, 1
        while name in self._properties:
            name = f"{wish}_{place}" if number == 1 else f"{wish}_{place}_{number}"
            number += 1
        self._properties[name] = schema
        if required:
            self._required.append(name)
        return name


def _renamed(rule: Any, names: dict[str, str]) -> Any:
    """A rule on which properties go together, by the names that they have here."""
    if isinstance(rule, list):
        return [_renamed(part, names) for part in rule]
    if not isinstance(rule, dict):
        return rule
    renamed: dict[str, Any] = {}
    for key, item in rule.items():
        if key == "required":
            renamed[key] = [names.get(name, name) for name in item]
        elif key == "dependentRequired":
            renamed[key] = {
                names.get(name, name): [names.get(other, other) for other in others]
                for name, others in item.items()
            }
        else:
            renamed[key] = _renamed(item, names)
    return renamed
