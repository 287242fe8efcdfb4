"""The routes of a server, and their description as OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from toolbank.search.serve.messages import (
    MOST_HITS,
    MOST_QUERIES,
    MOST_QUERY,
    RefusalError,
    read_address,
    read_body,
    read_json,
    read_request,
)
from toolbank.search.serve.searches import Searches
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


_NEAREST = 5
Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """Answers for the finders that are searched."""

    def __init__(self, searches: Searches) -> None:
        self._searches = searches
        self.shelf, self._log = searches.shelf, searches.log
        self.pool, self.metrics = searches.pool, searches.metrics

    def routes(self) -> list[Route]:
        """Those of the whole server, then the same of each finder behind its name."""
        own = [
            Route("/healthz", self._counted("/healthz", self._tell_health)),
            Route("/metrics", self._counted("/metrics", self._tell_metrics)),
            Route("/openapi.json", self._counted("/openapi.json", self._tell_api)),
        ]
        first = self._finder_routes("", self.shelf.names[0])
        named = [
            route
            for name in self.shelf.names
            for route in self._finder_routes(f"/{name}", name)
        ]
        return [*own, *first, *named]

    def _finder_routes(self, prefix: str, name: str) -> list[Route]:
        def route(path: str, answer: Any, *methods: str) -> Route:
            async def respond(request: Request) -> Response:
                found: Response = await answer(name, request)
                return found

            counted = self._counted(path.partition("{")[0].rstrip("/"), respond)
            return Route(prefix + path, counted, methods=methods)

        return [
            route("/search", self._search, "GET", "POST"),
            route("/tools/{tool:path}", self._describe, "GET"),
            route("/facets", self._tell_facets, "GET"),
            route("/nearest", self._find_nearest, "GET"),
            route("/feedback", self._take_feedback, "POST"),
        ]

    def _counted(self, route: str, answer: Endpoint) -> Endpoint:
        async def respond(request: Request) -> Response:
            status = 500
            try:
                response = await answer(request)
                status = response.status_code
            except RefusalError as refusal:
                response, status = refusal.response(), refusal.status
            finally:
                self.metrics.requests[route, status] += 1
            return response

        return respond

    async def _search(self, name: str, request: Request) -> Response:
        is_batch = request.method == "POST"
        asked = (
            read_body(await read_json(request)) if is_batch else read_address(request)
        )
        results = await self._searches.run(name, asked, _encode)
        body = b'{"results":[%s]}' % b",".join(results) if is_batch else results[0]
        return Response(body, media_type="application/json")

    async def _describe(self, name: str, request: Request) -> Response:
        finder = self.shelf[name]
        tool = finder.describe(request.path_params["tool"])
        if tool is None:
            raise RefusalError(
                404, "No tool is called so. Names are those that /search gives."
            )
        content = tool.model_dump(mode="json")
        return JSONResponse({**content, "function": finder.function(tool)})

    async def _tell_facets(self, name: str, request: Request) -> Response:  # noqa: ARG002
        finder = self.shelf[name]
        return JSONResponse(
            {
                "finder": name,
                "finders": self.shelf.names,
                "version": finder.version,
                "tools": len(finder.tools),
                "retrievers": list(finder.retrievers),
                "calibrated": sorted(finder.calibrations),
                "uncalibrated": finder.uncalibrated,
                "facets": finder.tools.facets,
                "pinned": [
                    {"name": tool.name, "summary": tool.summary}
                    for tool in finder.pinned
                ],
                "has_requests": finder.requests is not None,
                "logs": self._log is not None,
            }
        )

    async def _find_nearest(self, name: str, request: Request) -> Response:
        asked, finder = read_request(request), self.shelf[name]
        near = await self.pool.run(lambda: finder.nearest_requests(asked, _NEAREST))
        return JSONResponse(
            {"requests": [{"query": one.query, "tools": one.tools} for one in near]}
        )

    async def _take_feedback(self, name: str, request: Request) -> Response:
        if self._log is None:
            raise RefusalError(
                404, "This server keeps no log; it is started with --log FILE."
            )
        content = await read_json(request)
        search, tool = (
            content.get(key) if isinstance(content, dict) else None
            for key in ("search", "tool")
        )
        if not isinstance(search, str) or not isinstance(tool, str):
            raise RefusalError(
                400, 'The body has to be {"search": "ID", "tool": "NAME"}.'
            )
        if not self._log.chose(name, search, tool):
            raise RefusalError(
                404, "No such search is known, or it did not find that tool."
            )
        return JSONResponse({"logged": True})

    async def _tell_health(self, request: Request) -> Response:  # noqa: ARG002
        finders = {
            name: {
                "version": self.shelf[name].version,
                "tools": len(self.shelf[name].tools),
            }
            for name in self.shelf.names
        }
        content = {"status": "ok", "toolbank": __version__, "finders": finders}
        return JSONResponse(content)

    async def _tell_metrics(self, request: Request) -> Response:  # noqa: ARG002
        gauges = [
            ("toolbank_searches_running", "gauge", "", float(self.pool.running)),
            (
                "toolbank_searches_refused_total",
                "counter",
                "",
                float(self.pool.refused),
            ),
            ("toolbank_reloads_total", "counter", "", float(self.shelf.reloads)),
        ]
        if self._log is not None:
            lost = float(self._log.lost)
            gauges.append(("toolbank_log_lines_lost_total", "counter", "", lost))
        gauges += [
            (
                "toolbank_finder_tools",
                "gauge",
                f'{{finder="{name}",version="{self.shelf[name].version}"}}',
                float(len(self.shelf[name].tools)),
            )
            for name in self.shelf.names
        ]
        return PlainTextResponse(
            self.metrics.text(gauges),
            media_type="text/plain; version=0.0.4; charset=utf-8",
        )

    async def _tell_api(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(describe_api(self.shelf.names))


def _encode(content: dict[str, Any]) -> bytes:
    return bytes(JSONResponse(content).body)
