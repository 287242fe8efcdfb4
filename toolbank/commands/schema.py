"""`toolbank schema`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from toolbank.commands.options import echo
from toolbank.run.recipe import recipe_schema

# As many keys as this, or more, are named and not described again.
_SHARED = 3
_OPENING = """\
# The keys of a recipe

<!-- `toolbank schema --markdown` writes this page. What it says of a key stands where the key is. -->

A recipe is one YAML file. A key that isn't here is an error that names the nearest one. Relative
paths start at the recipe's folder. Any value can be changed on the command line,
`--set generate.queries=500`; an item of a list by its number, `--set sources.0.package=pandas`,
or by its name or type where no other has that, `--set retrievers.llm.model=gpt-4o-mini`.
What has a `type` alone may be written as that: `bm25` for `{type: bm25}`.
`toolbank schema` prints the JSON Schema, by which editors check and complete.
"""

Schema = Mapping[str, Any]


def describe_keys(schema: Schema) -> str:
    """A page with a table of the recipe's own keys, and one of each part, in their order.

    A key that has the same meaning and default in an earlier part is only named.
    """
    lines = [_OPENING, *_table(schema["properties"].items(), schema)]
    seen: dict[str, str] = {}
    for title, part in _parts(schema):
        lines += ["", f"## {title}", ""]
        lines += [_escape(part.get("description", "").partition("\n\n")[0]), ""]
        rows = list(part["properties"].items())
        known: dict[str, list[str]] = {}
        for key, value in rows:
            known.setdefault(seen.get(_content(key, value), ""), []).append(key)
        own = known.pop("", [])
        for section, keys in list(known.items()):
            if len(keys) < _SHARED:
                own += known.pop(section)
        lines += _table([row for row in rows if row[0] in own], schema)
        for section, keys in known.items():
            names = ", ".join(f"`{key}`" for key in keys)
            lines += ["", f"As in {_link(section)}: {names}."]
        for key, value in rows:
            seen.setdefault(_content(key, value), title)
    return "\n".join(lines)


def _parts(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Title and schema of each part, its own parts after it; none twice."""
    done: set[str] = set()

    def walk(part: Schema, owner: str) -> Iterator[tuple[str, Schema]]:
        for key, value in part["properties"].items():
            for name in _references(value):
                found = schema["$defs"][name]
                if name in done or "properties" not in found:
                    continue
                done.add(name)
                kind = found["properties"].get("type", {}).get("const")
                place = kind or f"{owner}.{key}".strip(".")
                yield (f"`{key}`, type `{kind}`" if kind else f"`{place}`"), found
                yield from walk(found, place)

    return walk(schema, "")


def _table(rows: Any, schema: Schema) -> list[str]:
    rows = [(key, value) for key, value in rows if "const" not in value]
    if not rows:
        return ["It has no keys of its own."]
    titles = {id(part): title for title, part in _parts(schema)}
    lines = ["| key | default | |", "|---|---|---|"]
    for key, value in rows:
        parts = [titles.get(id(schema["$defs"][name])) for name in _references(value)]
        links = ", ".join(_link(title) for title in parts if title)
        texts = (_choices(value), _escape(value.get("description", "")), links)
        meaning = "; ".join(text for text in texts if text)
        lines.append(f"| `{key}` | {_default(value)} | {meaning} |")
    return lines


def _escape(text: str) -> str:
    """Without what Markdown would take for a column or a tag."""
    return re.sub(r"([|<])", r"\\\1", " ".join(text.split()))


def _references(value: Schema) -> list[str]:
    """The definitions that a property's value, or an item of it, may be one of."""
    if "$ref" in value:
        return [value["$ref"].rpartition("/")[2]]
    options = [*value.get("oneOf", ()), *value.get("anyOf", ())]
    options += [value["items"]] if "items" in value else []
    return [name for option in options for name in _references(option)]


def _choices(value: Schema) -> str:
    *others, last = value.get("enum", value.get("items", {}).get("enum", [""]))
    names = [f"`{name}`" for name in others]
    return f"{', '.join(names)} or `{last}`" if names else ""


def _default(value: Schema) -> str:
    if "default" not in value:
        return "required"
    default = value["default"]
    if default in (None, "", [], {}):
        return "unset"
    if isinstance(default, dict):
        return ""
    if isinstance(default, list):
        items = [item["type"] if isinstance(item, dict) else item for item in default]
        return f"`[{', '.join(map(str, items))}]`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _link(title: str) -> str:
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{title.rpartition('type ')[2]}](#{anchor})"


def _content(key: str, value: Schema) -> str:
    return json.dumps([key, {k: v for k, v in value.items() if k != "title"}])


def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As a page of tables for people.")
    ] = False,
) -> None:
    """Print the JSON Schema of a recipe, for editors."""
    found = recipe_schema()
    echo(describe_keys(found) if markdown else json.dumps(found, indent=2))
