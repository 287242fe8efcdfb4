"""The server's description of itself, as OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolbank.serve.settings import MOST_HITS, MOST_QUERIES, MOST_QUERY
from toolbank.system.version import __version__

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
_LISTED = {
    "type": "object",
    "required": ["name", "summary"],
    "properties": {"name": {"type": "string"}, "summary": {"type": "string"}},
}
_ANSWER = {
    "type": "object",
    "required": ["hits"],
    "properties": {
        "hits": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "score", "summary"],
                "properties": {
                    "name": {"type": "string"},
                    "score": {
                        "type": "number",
                        "minimum": 0,
                        "maximum": 1,
                        "description": "how likely the tool is needed; only a rank where "
                        "calibrated is false",
                    },
                    "summary": {"type": "string"},
                },
            },
        },
        "fits": {
            "type": "boolean",
            "description": "false: probably none of the hits serves the request; absent without "
            "a calibration",
        },
        "calibrated": {
            "const": False,
            "description": "scores only rank the hits; absent where they are probabilities",
        },
        "pinned": {"type": "array", "items": _LISTED},
        "id": {"type": "string", "description": "by which /feedback names the search"},
    },
}
_K = {"type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 5}
_LEAST = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "the least score of a hit; unset, hits of any score are given",
}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_QUERY = {"type": "string", "minLength": 1, "maxLength": MOST_QUERY}
_FILTERS: dict[str, Any] = {"source": _TEXTS, "kind": _TEXTS, "tag": _TEXTS}


def describe_api(names: Sequence[str]) -> dict[str, Any]:
    """OpenAPI 3.1 of the routes; those of each finder also stand behind its name."""
    paths: dict[str, Any] = {}
    for prefix in ("", *(f"/{name}" for name in names)):
        paths |= {f"{prefix}{path}": item for path, item in _paths().items()}
    paths["/healthz"] = {"get": _get("Whether it runs, and what it serves", [])}
    metrics = _get("What it has done, as Prometheus reads it", [])
    metrics["responses"]["200"]["content"] = {
        "text/plain": {"schema": {"type": "string"}}
    }
    paths["/metrics"] = {"get": metrics}
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolbank", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _paths() -> dict[str, Any]:
    asked: dict[str, Any] = {
        "k": _K,
        "min_score": _LEAST,
        "retriever": {"type": "string"},
        **_FILTERS,
    }
    parameters = [_parameter(name, schema) for name, schema in asked.items()]
    q = {**_parameter("q", _QUERY), "required": True}
    body = {
        "type": "object",
        "required": ["queries"],
        "properties": {
            "queries": {"type": "array", "maxItems": MOST_QUERIES, "items": _QUERY},
            **asked,
        },
    }
    results = {"type": "object", "properties": {"results": _array(_ANSWER)}}
    near = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "tools": _TEXTS},
    }
    choice = {
        "type": "object",
        "required": ["search", "tool"],
        "properties": {"search": {"type": "string"}, "tool": {"type": "string"}},
    }
    name = {**_parameter("name", {"type": "string"}), "in": "path", "required": True}
    return {
        "/search": {
            "get": _get("Tools for a request", [q, *parameters], _ANSWER),
            "post": _post("Tools for several requests", body, results),
        },
        "/tools/{name}": {"get": _get("A tool, with its schema", [name])},
        "/facets": {"get": _get("What can be searched with and for", [])},
        "/nearest": {
            "get": _get(
                "The bank's requests nearest to one",
                [q],
                {"type": "object", "properties": {"requests": _array(near)}},
            )
        },
        "/feedback": {
            "post": _post("Which tool was chosen", choice, {"type": "object"})
        },
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


def _get(
    summary: str, parameters: list[dict[str, Any]], answer: dict[str, Any] | None = None
) -> dict[str, Any]:
    found = {"type": "object"} if answer is None else answer
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": _responses(found),
    }


def _post(summary: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _content(body)},
        "responses": _responses(answer),
    }


def _responses(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": "found", "content": _content(answer)},
        "default": {"description": "an error", "content": _content(_ERROR)},
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
