"""What has to hold of the tools of every source, whoever brings it."""

import json
from collections.abc import Iterable
from typing import Any

from toolbank.bank.records import Tool
from toolbank.system.errors import InputError

_SHOWN = 200
_EXAMPLE = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def check_tools(tools: Iterable[Tool], label: str) -> None:
    """Refuse a tool without a name, or that no file holds, or whose parameters describe no object.

    All that is said of a tool is JSON that can be written as UTF-8; its parameters are a JSON
    Schema of an object.

    Raises:
        InputError: names the source by its label, the tool, and what is wrong with it.
    """
    check = SchemaCheck()
    for tool in tools:
        if not tool.name.strip():
            said = (tool.summary or tool.description or "nothing is said of it")[
                :_SHOWN
            ]
            raise InputError(
                f"sources: {label}: a tool has no name ({said}). Give each its full name, such as "
                "weather.forecast."
            )
        if trouble := _explain_unwritable(tool):
            raise InputError(
                f"sources: {label}: what is said of {tool.name[:_SHOWN]!a} can't be written as "
                f"JSON ({trouble}). Leave out what JSON in UTF-8 doesn't have, such as NaN or half "
                "a surrogate pair."
            )
        if trouble := check.explain(tool.parameters):
            raise InputError(
                f"sources: {label}: the parameters of {tool.name[:_SHOWN]} are no JSON Schema of "
                f"an object ({trouble}). They should look like {_EXAMPLE}."
            )


def _explain_unwritable(tool: Tool) -> str:
    """Why no file of a bank or an export could hold it, or ""; begins with the field."""
    for field, value in tool.model_dump().items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            return f"{field}: {error}"[:_SHOWN]
    return ""


class SchemaCheck:
    """Holds each schema against the metaschema once: a reference repeats a few thousand times."""

    def __init__(self) -> None:
        from jsonschema import Draft202012Validator

        self._validator = Draft202012Validator(
            Draft202012Validator.META_SCHEMA,
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        )
        self._sound: set[str] = set()

    def explain(self, parameters: dict[str, Any]) -> str:
        """What is wrong with a schema of parameters, or ""."""
        if parameters.get("type") != "object":
            return 'its type is not "object"'
        properties = parameters.get("properties", {})
        if not isinstance(properties, dict):
            return "properties: not an object"
        rest = {key: parameters[key] for key in parameters if key != "properties"}
        if trouble := self.explain_schema(rest):
            return trouble.lstrip(".: ")
        for name, schema in properties.items():
            if not isinstance(schema, dict):
                return f"properties.{name}: not an object"[:_SHOWN]
            if trouble := self.explain_schema(schema):
                return f"properties.{name}{trouble}"[:_SHOWN]
        return ""

    def explain_schema(self, schema: dict[str, Any]) -> str:
        """What is wrong with any JSON Schema, or ""; begins with the place."""
        from jsonschema.exceptions import best_match

        # A text that is sound is so whatever it says, and it is what schemas differ in.
        bare = {
            key: value
            for key, value in schema.items()
            if not (key in {"description", "title"} and isinstance(value, str))
            and key != "default"
        }
        written = json.dumps(bare)
        if written in self._sound:
            return ""
        error = best_match(self._validator.iter_errors(bare))
        if error is None:
            self._sound.add(written)
            return ""
        return f"{error.json_path.removeprefix('$')}: {error.message}"[:_SHOWN]
