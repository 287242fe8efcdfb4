"""`toolbank schema` and `toolbank recipes`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from toolbank.commands.options import echo
from toolbank.config.assets import list_assets
from toolbank.system.terminal import align

# So many keys with the same meaning as in an earlier part are listed only once.
_MANY = 5
_OPENING = """\
# Recipe keys

<!-- `toolbank schema --markdown` writes this page from the descriptions in the code. -->

A recipe is one YAML file. An unknown key is an error that names the nearest known one. Relative paths start at the
recipe's folder. `--set generate.queries=500` changes a value on the command line, in each command that takes a recipe:
`run`, `plan`, `preview`, `tools` and those of single stages. Others, such as `publish`, read a finished run. Items of
lists are named by number (`--set sources.0.package=pandas`), or by a unique name or type (`--set
retrievers.llm.model=gpt-4o-mini`). An item with only a `type` can be written as that type: `bm25` for `{type: bm25}`.
`toolbank schema` prints the JSON Schema, with which editors check and complete recipes.

The parentheses after a key hold its default, or "required". A key without parentheses is optional; if it has a
default, the text names it. "As in" lists further keys, which have the same meaning as in another part.
"""

Schema = Mapping[str, Any]


def describe_keys(schema: Schema) -> str:
    """Write the Markdown page of all keys: the recipe's own, then those of each part.

    A key with the same description and default as in an earlier part is only named.
    """
    lines = [_OPENING, *_list(schema["properties"].items(), schema)]
    seen: dict[str, str] = {}
    named: dict[tuple[str, ...], str] = {}
    for title, part in _parts(schema):
        lines += ["", f"## {title}", ""]
        lines += [_escape(part.get("description", "").partition("\n\n")[0]), ""]
        rows = list(part["properties"].items())
        known: dict[str, list[str]] = {}
        for key, value in rows:
            known.setdefault(seen.get(_content(key, value), ""), []).append(key)
        own = known.pop("", [])
        lines += _list([row for row in rows if row[0] in own], schema)
        shared = []
        for section, keys in known.items():
            first = named.setdefault((section, *keys), title)
            names = ", ".join(f"`{key}`" for key in keys)
            if first != title and len(keys) > _MANY:
                names = f"the keys listed under {_link(first)}"
            shared.append(f"{_link(section)}: {names}")
        if shared:
            lines += ["", f"As in {'; in '.join(shared)}."]
        for key, value in rows:
            if "description" in value:
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


def _list(rows: Any, schema: Schema) -> list[str]:
    rows = [(key, value) for key, value in rows if "const" not in value]
    titles = {id(part): title for title, part in _parts(schema)}
    lines = []
    for key, value in rows:
        parts = [titles.get(id(schema["$defs"][name])) for name in _references(value)]
        links = ", ".join(_link(title) for title in parts if title)
        texts = (_choices(value), _escape(value.get("description", "")), links)
        meaning = "; ".join(text for text in texts if text)
        default = f" ({found})" if (found := _default(value)) else ""
        lines.append(f"- `{key}`{default}: {meaning}")
    return lines


def _escape(text: str) -> str:
    """Escape what Markdown would take for a tag."""
    return re.sub(r"([<])", r"\\\1", " ".join(text.split()))


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
    if default in (None, "", []) or isinstance(default, dict):
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
        bool, typer.Option("--markdown", help="Print a Markdown page of all keys.")
    ] = False,
) -> None:
    """Print the JSON Schema of a recipe, for editors."""
    from toolbank.run.recipe import recipe_schema

    found = recipe_schema()
    echo(describe_keys(found) if markdown else json.dumps(found, indent=2))


def recipes() -> None:
    """List the bundled recipes and those in ./recipes."""
    found = [one.path for one in list_assets("recipes", ".yaml")]
    echo("\n".join(align([(path.stem, _read_title(path)) for path in found])))


def _read_title(path: Path) -> str:
    """The comment in a recipe's first line; "" if there is none."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    return first.lstrip("# ").rstrip(":.") if first.startswith("#") else ""
