"""Reading what a model answered: one JSON object, whatever stands around it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from toolbank.config.assets import shipped
from toolbank.llm.chat import Rejection, find_answer
from toolbank.system.text import replace_surrogates

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


# Replies are checked by the bundled schemas. The schemas of a user are only sent.
_FOLDER = shipped("prompts") / "schemas"
DRAFT_SCHEMA: dict[str, Any] = json.loads((_FOLDER / "write.json").read_bytes())
POLISHED_SCHEMA: dict[str, Any] = json.loads((_FOLDER / "polish.json").read_bytes())
_SCHEMAS = {"draft": DRAFT_SCHEMA, "polished": POLISHED_SCHEMA}

_DRAFT_DEFAULTS = {"declined": False, "reason": ""}
_DECLINED_DEFAULTS: dict[str, Any] = {"tools": [], "explanation": "", "draft": ""}
_POLISHED_DEFAULTS = {"already_good": False, "reason": ""}
_TYPES = {
    kind: {
        name: {"string": str, "boolean": bool, "array": list}[value["type"]]
        for name, value in schema["properties"].items()
    }
    for kind, schema in _SCHEMAS.items()
}


@dataclass(frozen=True)
class Draft:
    """A writer's answer. Where `declined`, `reason` says why and the rest is empty."""

    draft: str
    tools: tuple[str, ...]
    explanation: str
    declined: bool = False
    reason: str = ""


def read_draft(text: str) -> Draft | Rejection:
    """Read a writer's reply.

    Rejected as `not-json`, `several-objects`, `repeated-key`, `wrong-schema`, `empty-draft` or
    `reply-too-long`. Nothing that a reply can hold raises.
    """
    found = find_answer(text, DRAFT_SCHEMA["properties"])
    if isinstance(found, Rejection):
        return found
    answer = {**_DRAFT_DEFAULTS, **found}
    if answer["declined"] is True:
        answer = {**_DECLINED_DEFAULTS, **answer}
    problem = _problem(answer, "draft")
    if problem:
        return problem
    if answer["declined"]:
        return Draft("", (), "", declined=True, reason=_tidy(answer["reason"]))
    draft = _one_line(answer["draft"])
    if not draft:
        return Rejection("empty-draft")
    tools = tuple(_tidy(tool) for tool in answer["tools"])
    return Draft(draft, tools, _one_line(answer["explanation"]))


def read_polished(text: str, draft: str) -> str | Rejection:
    """Read the query of a polisher's reply to `draft`, which is good already where it says so.

    Rejected as `not-json`, `several-objects`, `repeated-key`, `wrong-schema`, `empty-query` or
    `reply-too-long`. Nothing that a reply can hold raises.
    """
    found = find_answer(text, POLISHED_SCHEMA["properties"])
    if isinstance(found, Rejection):
        return found
    answer = {**_POLISHED_DEFAULTS, **found}
    if answer["already_good"] is True:
        answer["query"] = draft
    problem = _problem(answer, "polished")
    if problem:
        return problem
    query = _one_line(answer["query"])
    return query or Rejection("empty-query")


@cache
def _validator(kind: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_SCHEMAS[kind])


def _problem(answer: dict[str, Any], kind: str) -> Rejection | None:
    if _is_plain(answer, kind):
        return None
    for error in _validator(kind).iter_errors(answer):
        where = "".join(f"[{part!r}]" for part in error.path)
        return Rejection("wrong-schema", f"{where} {error.message}"[:200].strip())
    return None


def _is_plain(answer: dict[str, Any], kind: str) -> bool:
    """Whether the schema surely allows an answer, without the validator: most are such."""
    types = _TYPES[kind]
    return (
        answer.keys() == types.keys()
        and all(type(answer[name]) is wanted for name, wanted in types.items())
        and all(type(tool) is str for tool in answer.get("tools", ()))
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tidy(text: str) -> str:
    """One line of text that any file can hold."""
    return _one_line(replace_surrogates(text))
