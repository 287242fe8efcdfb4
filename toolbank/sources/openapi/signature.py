"""Build the JSON Schema of an operation's arguments, and their places in the request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolbank.bank.records import Argument, Place
from toolbank.sources.openapi.operations import (
    Operation,
    OperationParameter,
    read_style,
)
from toolbank.sources.openapi.references import Node
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.texts import plain_text
from toolbank.sources.openapi.translation import Schema

_SAID = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated"),
        *("readOnly", "writeOnly", "minProperties", "maxProperties"),
    }
)
"""Keywords that are dropped when an object becomes a list of parameters."""

_FLAT = frozenset({"$ref", "type", "properties", "required", "allOf"})
_LEADING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that lead to other schemas of the same value."""
_OF_OTHERS = frozenset(
    {
        *("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
        *("minContains", "maxContains", "minLength", "maxLength", "pattern", "format"),
        *("contentEncoding", "contentMediaType", "minimum", "maximum", "multipleOf"),
        *("exclusiveMinimum", "exclusiveMaximum"),
    }
)
"""Keywords that say nothing of an object."""
_DEEPEST = 20


@dataclass
class FlatObject:
    """The properties of an object, and which are required.

    `depths` count the `allOf`s around each property, `seen` those around each part by identity.
    `rules` are keywords that refer to properties by name; `rest` is the schema of additional
    properties, True for anything.
    """

    properties: dict[str, Schema] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    rules: list[Schema] = field(default_factory=list)
    rest: Any = True


def flatten(schema: Schema, schemas: Schemas) -> FlatObject | None:
    """List the properties of an object, including those of its `allOf`.

    Return None if the schema is not an object, has no properties, or has more than properties,
    such as one of several objects.
    """
    flat = FlatObject()
    if not _add(flat, schema, schemas, 0) or not flat.properties:
        return None
    for name in flat.required:  # it may lack a description
        flat.properties.setdefault(name, {})
    return flat


def _add(flat: FlatObject, schema: Schema, schemas: Schemas, depth: int) -> bool:
    schema = _bare(schema, schemas)
    if depth > _DEEPEST or not _is_object(schema):
        return False
    if flat.seen.get(id(schema), depth + 1) <= depth:
        return True
    flat.seen[id(schema)] = depth
    for key, item in schema.items():
        if key == "properties":
            for name, part in item.items():
                _add_property(flat, name, part, schemas, depth)
        elif key == "required":
            flat.required += [name for name in item if name not in flat.required]
        elif key == "$ref":
            if not _add(flat, {key: item}, schemas, depth + 1):
                return False
        elif key == "allOf":
            if not all(_add(flat, part, schemas, depth + 1) for part in item):
                return False
        elif key in ("additionalProperties", "unevaluatedProperties"):
            if depth and item not in (True, {}):
                return False
            flat.rest = item
        elif key in ("anyOf", "oneOf", "not", "dependentRequired"):
            if not _is_rule(key, item):
                return False
            flat.rules.append({key: item})
        elif key not in _SAID and key not in _FLAT and key not in _OF_OTHERS:
            return False
    return True


def _add_property(
    flat: FlatObject, name: str, part: Schema, schemas: Schemas, depth: int
) -> None:
    """Add a property; one that is there as well holds for both, and the later describes it.

    The later is that with fewer `allOf`s around it.
    """
    known, before = flat.properties.get(name, part), flat.depths.get(name, depth)
    flat.depths[name] = min(before, depth)
    if known is not part and known != part:
        first, last = (part, known) if depth > before else (known, part)
        differing = {k for k in first.keys() & last.keys() if first[k] != last[k]}
        joined = {**first, **last}
        known_values = {*map(repr, first.get("enum", ()))}
        both = [one for one in last.get("enum", ()) if repr(one) in known_values]
        if differing - _SAID == {"enum"} and both:
            joined["enum"] = both
        elif differing - _SAID:
            said = {key: joined[key] for key in joined if key in _SAID}
            joined = {**said, "allOf": [first, last]}
        part = schemas.derive(joined, [first, last])
    flat.properties[name] = part


def _bare(schema: Schema, schemas: Schemas) -> Schema:
    """Follow references, and choices such as "this or null" that leave only one schema."""
    for _ in range(_DEEPEST):
        schema = schemas.target(schema, _SAID)
        only = _only_choice(schema)
        if only is None or len(schema.keys() - _SAID) > 1:
            break
        schema = only
    return schema


def _only_choice(schema: Schema) -> Schema | None:
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    choices = [one for one in choices if not _is_null(one)]
    return choices[0] if len(choices) == 1 else None


def _is_null(schema: Schema) -> bool:
    return schema.get("type") == "null" or schema.get("enum") == [None]


def _parts(schema: Schema, schemas: Schemas) -> list[Schema]:
    """A schema and those that hold with it: of references, an `allOf` or an only choice."""
    parts, known = [schema], {id(schema)}
    for part in parts:
        if not _LEADING.isdisjoint(part):
            inner = [*part.get("allOf", ()), *filter(None, [_only_choice(part)])]
            inner += [schemas.shared(part["$ref"])] if "$ref" in part else []
            parts += [one for one in inner if id(one) not in known]
            known |= {*map(id, inner)}
    return parts


def _holds_nothing(schema: Schema) -> bool:
    if _is_null(schema) or schema.get("not") == {} or schema.get("maxProperties") == 0:
        return True
    keys = ("properties", "patternProperties", "allOf", "$ref")
    is_closed = schema.get("additionalProperties") is False and _is_object(schema)
    return is_closed and not any(schema.get(key) for key in keys)


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_rule(key: str, item: Any) -> bool:
    """Whether a keyword only says which properties occur together."""
    if key == "dependentRequired":
        return True
    parts = item if isinstance(item, list) else [item]
    return all(
        not part.keys() - {"required", "not", "title", "description", "type"}
        and ("not" not in part or _is_rule("not", part["not"]))
        and _is_object(part)
        for part in parts
    )


_JSON = "application/json"
ANY = ("*/*", "application/*")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_JSON_TYPE = re.compile(r"(?:application|text|\*)/(?:[\w.+-]*\+)?json")


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON, such as application/vnd.github+json."""
    return bool(_JSON_TYPE.fullmatch(bare(content_type)))


def is_form(content_type: str) -> bool:
    """Whether a content type is a form."""
    return bare(content_type) in FORMS


def choose(content_types: Iterable[str]) -> str:
    """Choose the content type to send: the first of the best rank, "" if there are none."""
    return min(content_types, key=_rank, default="")


@lru_cache
def bare(content_type: str) -> str:
    """Remove the parameters of a content type."""
    return content_type.partition(";")[0].strip().lower()


def _rank(content_type: str) -> int:
    plain = bare(content_type)
    if plain == _JSON:
        return 0
    if is_json(content_type):
        return 1
    if plain in ANY:
        return 2
    return 3 + FORMS.index(plain) if plain in FORMS else 5


@dataclass(frozen=True)
class Body:
    """The body of a request; `flat` are its properties, or None if it is one argument.

    `styles` are the style (or else the content type) and `explode` of properties with an encoding.
    """

    content_type: str
    required: bool
    schema: Schema
    flat: FlatObject | None
    name: str = "body"
    styles: Mapping[str, tuple[str, bool | None]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """The place in the request."""
        return "form" if is_form(self.content_type) else "body"


def read_body(operation: Operation, schemas: Schemas) -> Body | None:
    """Read the request body of an operation; None if it takes none."""
    references = schemas.references
    listed = operation.node.child("requestBody")
    if listed.value is None:
        return None
    node = references.follow_or_report(listed, "a request body")
    if node is None:
        return None
    contents = references.members(node.child("content"))
    if not contents:
        what = "a request body without `content`; it is skipped"
        references.findings.problem(what, node.place)
        return None
    content_type = choose(contents)
    media = references.follow_or_report(contents[content_type], "a content type")
    if media is None:
        return None
    schema = read_media(content_type, media, schemas)
    styles = {
        name: read_style(
            said.get("style") or said.get("contentType"), said, references.findings
        )
        for name, listed in references.members(media.child("encoding")).items()
        if (said := references.follow_or_report(listed, "an encoding"))
    }
    return _body(content_type, schema, node, schemas, styles=styles)


def read_body_parameter(
    node: Node, content_types: Sequence[str], schemas: Schemas
) -> Body | None:
    """Read the body that a parameter of Swagger 2.0 describes."""
    schema = node.child("schema")
    name = str(node.get("name") or "body")
    read = schemas.read(schema) if schema.value is not None else {}
    return _body(choose(content_types) or _JSON, read, node, schemas, name=name)


def _body(
    content_type: str, schema: Schema, node: Node, schemas: Schemas, **more: Any
) -> Body | None:
    findings = schemas.references.findings
    if any(map(_holds_nothing, _parts(schema, schemas))):
        what = "a request body that can hold nothing, which is no parameter"
        findings.note(what, node.place)
        return None
    required = findings.flag(node, "required") is True
    flat = flatten(schema, schemas)
    for name, part in [*flat.properties.items()] if flat else ():
        if flat and any(one.get("readOnly") is True for one in _parts(part, schemas)):
            del flat.properties[name]
            findings.note("a `readOnly` property, which is no parameter", node.place)
    if flat and flat.rules and not required:
        flat = None  # the rules apply only if there is a body
    text = plain_text(node.get("description"))
    if text and "description" not in schema:
        schema = schemas.derive({**schema, "description": text}, [schema])
    sent = _JSON if content_type in ANY else content_type
    return Body(sent, required, schema, flat, **more)


def read_media(content_type: str, media: Node, schemas: Schemas) -> Schema:
    """Read the schema of a media type; without one, it is any JSON, or a text."""
    schema, item = media.child("schema"), media.child("itemSchema")
    if schema.value is not None:
        return schemas.read(schema)
    if item.value is not None:
        part = schemas.read(item)
        return schemas.derive({"type": "array", "items": part}, [part])
    if is_json(content_type) or is_form(content_type) or content_type in ANY:
        return {}
    return {"type": "string"}


class OperationSignature:
    """Collects the properties of an operation under unique names."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._properties: dict[str, Schema] = {}
        self._required: list[str] = []
        self._arguments: list[Argument] = []
        self._more: Schema = {}
        self._parts: list[Schema] = []

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The place of each property in the request."""
        return tuple(self._arguments)

    def add(self, one: OperationParameter, suffix: str = "") -> str:
        """Add a parameter; return its name, which gets its place as a suffix if it is taken."""
        argument, number = one.argument, 1
        name = argument.property
        while name in self._properties:
            name = f"{argument.property}_{suffix or argument.place}"
            name += f"_{number}" if number > 1 else ""
            number += 1
        self._properties[name] = one.schema
        if one.required:
            self._required.append(name)
        if name != argument.property:
            argument = argument.model_copy(update={"property": name})
        self._arguments.append(argument)
        return name

    def add_body(self, body: Body) -> None:
        """Add the properties of a body, or the whole body as one."""
        if body.flat is None:
            argument = Argument(property=body.name, place=body.place)
            whole = OperationParameter(argument, body.schema, body.required)
            self.add(whole, suffix="body")
            return
        flat, place, names = body.flat, body.place, dict[str, str]()
        for name, schema in flat.properties.items():
            style, explode = body.styles.get(name, ("", None))
            argument = Argument(
                property=name, place=place, name=name, style=style, explode=explode
            )
            names[name] = self.add(OperationParameter(argument, schema, False))
        required = [names[name] for name in flat.required if name in names]
        if body.required:
            self._required += required
        elif required:
            self._more["dependentRequired"] = {
                name: [other for other in required if other != name]
                for name in names.values()
                if required != [name]
            }
        rules = [_rename(rule, names) for rule in flat.rules]
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
        """Build the JSON Schema with its `$defs`; `place` is that of the operation."""
        schema: Schema = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = list(dict.fromkeys(self._required))
        schema |= self._more
        return self._schemas.complete(
            schema, [*self._properties.values(), *self._parts], place
        )


def _rename(rule: Any, names: dict[str, str]) -> Any:
    """Replace names of properties in a rule."""
    if isinstance(rule, list):
        return [_rename(part, names) for part in rule]
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
            renamed[key] = _rename(item, names)
    return renamed
