"""Translate a schema of OpenAPI or Swagger into JSON Schema 2020-12, keyword by keyword."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from toolbank.sources.checks import is_pattern
from toolbank.sources.openapi.references import (
    Node,
    References,
    UnresolvedError,
    as_flag,
    reference_of,
)
from toolbank.sources.openapi.texts import plain_text
from toolbank.system.text import escape

Schema = dict[str, Any]
_Names = dict[tuple[str, str], list[str]]
"""The values of a discriminator, by the places of the schemas that they name."""
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "minContains", "maxContains"),
)
_HOLD_ONE = (
    *("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
    *("not", "if", "then", "else", "contains", "propertyNames", "contentSchema"),
)
_HOLD_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_HOLD_NAMED = ("properties", "patternProperties", "dependentSchemas")
"""Keywords that hold a schema, a list of them, or some by name."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_VALUES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "format"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("default", "const"), lambda _: True),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": lambda value: _is_text(value) and is_pattern(value),
}
"""Whether a keyword, which is copied, can have a value."""


def _read_flag(schema: Schema, key: str, item: Any) -> bool:
    if item is True:  # false is the default
        schema[key] = True
    return isinstance(item, bool)


def _read_count(schema: Schema, key: str, item: Any) -> bool:
    """3.0 is also a count."""
    if not _is_number(item) or item < 0 or item != item // 1:
        return False
    schema[key] = int(item)
    return True


def _read_limit(schema: Schema, key: str, item: Any) -> bool:
    """Up to OpenAPI 3.0, `exclusiveMinimum` is a flag of `minimum` (see `join_keywords`)."""
    if _is_number(item):
        schema[key] = item
    return _is_number(item) or isinstance(item, bool)


def _read_names(schema: Schema, key: str, item: Any) -> bool:
    if not _are_names(item):
        return False
    schema[key] = list(dict.fromkeys([*schema.get(key, ()), *item]))
    return True


def _read_name_lists(schema: Schema, key: str, item: Any) -> bool:
    if not isinstance(item, dict) or not all(map(_are_names, item.values())):
        return False
    schema[key] = {name: list(dict.fromkeys(item[name])) for name in item}
    return True


def _read_type(schema: Schema, key: str, item: Any) -> bool:
    if item == "file":
        schema[key], schema["format"] = "string", "binary"
        return True
    if isinstance(item, str):
        if item in _TYPES:
            schema[key] = item
        return item in _TYPES
    if not _are_names(item):
        return False
    known = [name for name in dict.fromkeys(item) if name in _TYPES]
    if known:
        schema[key] = known
    return len(known) == len(set(item))


def _read_text(schema: Schema, key: str, item: Any) -> bool:
    if isinstance(item, str):
        schema[key] = plain_text(item)
    return isinstance(item, str)


def _read_example(schema: Schema, _: str, item: Any) -> bool:
    schema.setdefault("examples", [item])
    return True


_READERS: dict[str, Callable[[Schema, str, Any], bool]] = {
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _read_flag),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _read_limit),
    **dict.fromkeys(_COUNTS, _read_count),
    "required": _read_names,
    "dependentRequired": _read_name_lists,
    "type": _read_type,
    "example": _read_example,
    "description": _read_text,
    # `join_keywords` reads these.
    **dict.fromkeys(("nullable", "x-nullable"), lambda *said: said[2] in (True, False)),
}
"""Write a keyword into the schema, and return whether its value is valid."""


def join_keywords(schema: Schema, value: dict[str, Any]) -> Schema:
    """Translate keywords that depend on another one."""
    for limit, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        if value.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)
    if value.get("nullable") is True or value.get("x-nullable") is True:
        return _or_null(schema)
    return schema


def _or_null(schema: Schema) -> Schema:
    kind = schema.get("type")
    if kind is not None:
        kinds = [kind] if isinstance(kind, str) else kind
        if "null" not in kinds:
            schema["type"] = [*kinds, "null"]
        values = schema.get("enum")
        if values is not None and None not in values:
            schema["enum"] = [*values, None]
        return schema
    for key in ("anyOf", "oneOf"):
        if key in schema:
            if {"type": "null"} not in schema[key]:
                schema[key] = [*schema[key], {"type": "null"}]
            return schema
    if "$ref" in schema or "allOf" in schema:
        rest = {key: schema.pop(key) for key in ("$ref", "allOf") if key in schema}
        schema["anyOf"] = [rest, {"type": "null"}]
    return schema


Refer = Callable[[str, Node], str]
"""Name the target of a reference at a node in `$defs`; "" if there is none."""

_SHOWN = 60
_RESTS = _HOLD_ONE[:4]
"""Keywords on additional values, for which false is kept."""
_FLAGS = frozenset(
    {
        *("deprecated", "readOnly", "writeOnly", "uniqueItems", *_RESTS[1:]),
        *("nullable", "x-nullable", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
"""Keywords that can be true or false."""
_CHOICES = frozenset({"$ref", "enum", "const", "anyOf", "oneOf", "allOf"})
"""Keywords that say which values there are."""
_MOST_FOLLOWED = 10_000
_MOST_CHOICES = 100
_MOST_BASES = 50
_ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "example", "examples"),
        *("deprecated", "readOnly", "writeOnly", "nullable", "x-nullable"),
    }
)
"""Up to OpenAPI 3.0, only these keywords count next to a `$ref`."""


class Translation:
    """Translates schemas, and knows the names of `$defs` that each one refers to.

    Invalid values of keywords are problems. Keywords that JSON Schema lacks (xml, x-...) are
    skipped. Constraints next to a `$ref` count from OpenAPI 3.1.
    """

    def __init__(self, refer: Refer, references: References) -> None:
        self._refer = refer
        self._references = references
        self._findings = references.findings
        self._siblings = references.version >= (3, 1)
        self._followed = 0
        self._named: dict[tuple[str, str], tuple[str, _Names]] = {}
        self._refs: set[str] = set()
        # By identity. The schemas are kept so that no other one gets the identity.
        self._refs_of: dict[int, tuple[Schema, frozenset[str]]] = {}

    def translate(self, node: Node) -> Schema:
        """Translate the schema at a node."""
        outer, self._refs = self._refs, set()
        schema = self._schema(node)
        if self._refs:
            self._refs_of[id(schema)] = schema, frozenset(self._refs)
            outer |= self._refs
        self._refs = outer
        return schema

    def translate_shared(self, node: Node) -> Schema:
        """Translate a schema that others refer to, and may map a value to."""
        schema = self.translate(node)
        if node.get("allOf") and not node.get("discriminator"):
            self._name_own_choice(schema, node)
        return schema

    def refs_of(self, schema: Schema) -> frozenset[str]:
        """Return the names that a schema of `translate` or `derive` refers to."""
        known = self._refs_of.get(id(schema))
        return known[1] if known else frozenset()

    def derive(self, schema: Schema, parts: Iterable[Schema]) -> Schema:
        """Record that a schema refers to the same names as its parts."""
        refs = frozenset[str]().union(*map(self.refs_of, parts))
        if refs:
            self._refs_of[id(schema)] = schema, refs
        return schema

    def _schema(self, node: Node) -> Schema:
        value = node.value
        if value is True:
            return {}
        if value is False:
            return {"not": {}}
        if not isinstance(value, dict):
            self._findings.problem("a schema that is not an object", node.place)
            return {}
        schema: Schema = {}
        reference = value.get("$ref", value.get("$dynamicRef"))
        if isinstance(reference, str):
            if name := self._refer(reference, node):
                self._refs.add(name)
                schema["$ref"] = f"#/$defs/{name}"
            if len(value) == 1:
                return schema
            if not self._siblings:
                value = {key: value[key] for key in value if key in _ANNOTATIONS}
        elif reference is not None:
            self._findings.problem("a `$ref` that is not a text", node.place)
        for key, item in value.items():
            if key in _HOLDERS:
                is_sound = _HOLDERS[key](self, schema, key, node.child(key))
            elif key in _READERS:
                is_sound = _READERS[key](schema, key, item)
            elif key in _VALUES:
                is_sound = _VALUES[key](item)
                if is_sound:
                    schema[key] = item
            else:
                continue
            if not is_sound and (better := self._correct(key, item, node)):
                value = {**value, **better.value}
                schema |= self._schema(better)
        if "discriminator" in value:
            self._name_choices(schema, node)
        return join_keywords(schema, value)

    def _correct(self, key: str, item: Any, node: Node) -> Node | None:
        """A schema with the keyword whose value is a reference, or true or false in quotes."""
        place = node.child(key)
        if key in _FLAGS and (flag := as_flag(item)) is not None:
            self._findings.flag(node, key)
            return node._replace(value={key: flag})
        if reference_of(item) is not None and self._may_follow():
            found = self._references.follow_or_report(place, f"a value of `{key}`")
            above = found.pointer.rpartition("/")[0] if found else ""
            return found and Node({key: found.value}, found.document, above)
        self._refuse(key, item, node)
        return None

    def _may_follow(self) -> bool:
        """Count a reference in place of a keyword's value: nested, they may grow for ever."""
        self._followed += 1
        return self._followed <= _MOST_FOLLOWED

    def _mapping(self, node: Node) -> tuple[str, dict[str, Node]]:
        """The property of a discriminator and its mapping, or "" and nothing."""
        about = self._references.child(node, "discriminator")
        name = about.get("propertyName")
        mapping = self._references.child(about, "mapping").members()
        return (name, mapping) if isinstance(name, str) else ("", {})

    def _name_choices(self, schema: Schema, node: Node) -> None:
        """Make the names of a discriminator's mapping the values of its property."""
        name, mapping = self._mapping(node)
        if not mapping:
            return
        if len(mapping) > _MOST_CHOICES:
            what = f"a `discriminator` with over {_MOST_CHOICES} values, which are not listed"
            self._findings.note(what, node.place)
        else:
            self._set_choices(schema, name, [*mapping])
        if not schema.keys() & _CHOICES:
            what = "a `discriminator`: properties that only its `mapping` has are not listed"
            self._findings.note(what, node.place)

    def _name_own_choice(self, schema: Schema, node: Node) -> None:
        """Of a schema that others map to, list its own names and those of its heirs."""
        for base in self._bases(node)[1:]:
            if base.key not in self._named:
                self._named[base.key] = self._name_heirs(base)
            name, names = self._named[base.key]
            if own := names.get(node.key):
                self._set_choices(schema, name, own)

    def _name_heirs(self, base: Node) -> tuple[str, dict[tuple[str, str], list[str]]]:
        """The property of a discriminator, and for each schema its names and its heirs'."""
        name, mapping = self._mapping(base)
        names: dict[tuple[str, str], list[str]] = {}
        for value, target in mapping.items():
            if found := self._find_mapped(target, base):
                for one in self._bases(found):
                    names.setdefault(one.key, []).append(value)
        return name, names

    def _bases(self, node: Node) -> list[Node]:
        """A schema and those that it refers to in `allOf`, at any depth."""
        found, known = [node], {node.key}
        for one in found:
            for part in one.child("allOf").elements():
                if reference_of(part.value) is None or len(found) >= _MOST_BASES:
                    continue
                with suppress(UnresolvedError):
                    base = self._references.follow(part)
                    if base.key not in known:
                        known.add(base.key)
                        found.append(base)
        return found

    def _find_mapped(self, target: Node, base: Node) -> Node | None:
        """Where a value of a mapping leads: a reference, or a name beside the base."""
        said = str(target.value)
        if not re.search(r"[/#]|\.(json|ya?ml)$", said):
            said = f"#{base.pointer.rpartition('/')[0]}/{escape(said)}"
        with suppress(UnresolvedError):
            return self._references.resolve(target.document, said)
        return None

    def _set_choices(self, schema: Schema, name: str, values: list[str]) -> None:
        properties = schema.get("properties", {})
        known = properties.get(name, {"type": "string"})
        if known.get("type", "string") == "string" and not known.keys() & _CHOICES:
            choice = {**known, "enum": values}
            schema["properties"] = {**properties, name: choice}

    def _refuse(self, key: str, item: Any, node: Node) -> None:
        """Report an invalid value of a keyword; null counts as absent."""
        if item is None or (key == "required" and as_flag(item) is not None):
            return
        if key == "pattern" and isinstance(item, str):
            what = "a `pattern` that Python cannot read; it is skipped"
            self._findings.note(what, node.place)
            return
        said = json.dumps(item)
        said = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
        self._findings.problem(f"`{key}` cannot be {said}", node.child(key).place)

    def _read_schema(self, schema: Schema, key: str, node: Node) -> bool:
        if isinstance(node.value, bool) and key in _RESTS:
            schema[key] = node.value
            return True
        if not isinstance(node.value, dict | bool):
            return False
        schema[key] = self.translate(node)
        return True

    def _read_list(self, schema: Schema, key: str, node: Node) -> bool:
        if not isinstance(node.value, list):
            return False
        if node.value:
            schema[key] = [self.translate(part) for part in node.elements()]
        return bool(node.value)

    def _read_items(self, schema: Schema, key: str, node: Node) -> bool:
        """Read `items`; a list of schemas is `prefixItems` today, and may be empty."""
        if not isinstance(node.value, list):
            return self._read_schema(schema, key, node)
        return not node.value or self._read_list(schema, "prefixItems", node)

    def _read_named(self, schema: Schema, key: str, node: Node) -> bool:
        """Read schemas by name. A name is not a keyword, not even `$ref`."""
        is_reference = reference_of(node.value) is not None
        if not isinstance(node.value, dict) or (
            is_reference and not self._may_follow()
        ):
            return False
        members = self._references.members(node)
        schema[key] = {
            name: self.translate(part)
            for name, part in members.items()
            if key != "patternProperties" or is_pattern(name)
        }
        if key == "properties":
            required = [n for n in members if self._says_required(members[n])]
            if required:
                _read_names(schema, "required", required)
        return True

    def _says_required(self, node: Node) -> bool:
        """Whether a property has `required: true`, which is for its object to say."""
        said = node.get("required")
        if said is None or isinstance(said, list) or not as_flag(said):
            return False
        what = "a `required` that is true inside a property, and corrected"
        self._findings.note(what, node.child("required").place)
        return True


_HOLDERS = {
    **dict.fromkeys(_HOLD_ONE, Translation._read_schema),
    **dict.fromkeys(_HOLD_LIST, Translation._read_list),
    **dict.fromkeys(_HOLD_NAMED, Translation._read_named),
    "items": Translation._read_items,
}
"""Write a keyword with schemas, and return whether its value is valid."""
