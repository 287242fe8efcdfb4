"""Names of parameters as Anthropic's API takes them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolbank.bank.records import Tool
from toolbank.functions.combine import as_object

_LONGEST_PARAMETER = 64
_TAKEN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_.-]+")


def rename_properties(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A schema of parameters whose own properties have such names, and what was renamed.

    The names within a parameter are not checked there.
    """
    names = _name_all(schema["properties"])
    renamed = [f"{old} as {new}" for old, new in names.items() if old != new]
    if not renamed:
        return schema, ""
    written = {
        **schema,
        "properties": {names[k]: v for k, v in schema["properties"].items()},
    }
    if "required" in schema:
        written["required"] = [names.get(k, k) for k in schema["required"]]
    for key in ("dependentRequired", "dependentSchemas"):
        if key in schema:
            written[key] = {names.get(k, k): v for k, v in schema[key].items()}
    for one, others in written.get("dependentRequired", {}).items():
        written["dependentRequired"][one] = [names.get(k, k) for k in others]
    return written, f"renamed: {', '.join(renamed)}"


def restore_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call in Anthropic's form, by the tool's own names of its parameters."""
    whole, _ = as_object(tool.parameters)
    names = {new: old for old, new in _name_all(whole["properties"]).items()}
    return {names.get(name, name): value for name, value in arguments.items()}


def _name_all(names: Iterable[str]) -> dict[str, str]:
    """By each name one that is accepted, no two the same; other signs are an underscore."""
    found = {name: name for name in names if _TAKEN.fullmatch(name)}
    taken = set(found)
    for name in names:
        if name not in found:
            plain = _OTHERS.sub("_", name).strip("_")[:_LONGEST_PARAMETER] or "_"
            numbered = (
                f"{plain[: _LONGEST_PARAMETER - 1 - len(str(n))]}_{n}"
                for n in itertools.count(2)
            )
            found[name] = next(
                one for one in itertools.chain((plain,), numbered) if one not in taken
            )
            taken.add(found[name])
    return found
