"""The routes of a server, and their description as OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from toolbank.search.serve.messages import (
    AnswerContent,
    BatchContent,
    ErrorContent,
    NearestContent,
    NearestQuery,
    RefusalError,
    SearchBatch,
    SearchQuery,
    ToolChoice,
    list_summaries,
    read_body,
    read_parameters,
)
from toolbank.search.serve.searches import Searches
from toolbank.system.version import __version__

_NEAREST = 5
_REF = "#/components/schemas/{model}"
_MODELS = (AnswerContent, BatchContent, ErrorContent, NearestContent)


def describe_api(names: Sequence[str]) -> dict[str, Any]:
    """Describe the routes in OpenAPI 3.1; those of a finder are repeated under its name."""
    _, schemas = models_json_schema(
        [(model, "validation") for model in (*_MODELS, SearchBatch, ToolChoice)],
        ref_template=_REF,
    )
    tool_name = {"name": "name", "in": "path", "required": True}
    own = {
        "/search": {
            "get": _describe(
                "Find tools for a request", _parameters(SearchQuery), AnswerContent
            ),
            "post": _describe_post(
                "Find tools for several requests", SearchBatch, BatchContent
            ),
        },
        "/tools/{name}": {
            "get": _describe(
                "Get a tool with its schema",
                [{**tool_name, "schema": {"type": "string"}}],
            )
        },
        "/facets": {"get": _describe("List retrievers and filter values")},
        "/nearest": {
            "get": _describe(
                "Find the nearest requests of the bank",
                _parameters(NearestQuery),
                NearestContent,
            )
        },
        "/feedback": {"post": _describe_post("Report the chosen tool", ToolChoice)},
    }
    metrics = _describe("Metrics in the text format of Prometheus")
    metrics["responses"]["200"]["content"] = {
        "text/plain": {"schema": {"type": "string"}}
    }
    prefixes = ("", *(f"/{name}" for name in names))
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolbank", "version": __version__},
        "paths": {
            **{f"{pre}{path}": item for pre in prefixes for path, item in own.items()},
            "/healthz": {"get": _describe("Health, and the finders that are served")},
            "/metrics": {"get": metrics},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": described}
        for name, described in schema["properties"].items()
    ]


def _describe(
    summary: str,
    parameters: Sequence[dict[str, Any]] = (),
    answer: type[BaseModel] | None = None,
) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "success", "content": _content(answer)},
            "default": {"description": "an error", "content": _content(ErrorContent)},
        },
    }


def _describe_post(
    summary: str, body: type[BaseModel], answer: type[BaseModel] | None = None
) -> dict[str, Any]:
    described = _describe(summary, (), answer)
    return {**described, "requestBody": {"required": True, "content": _content(body)}}


def _content(model: type[BaseModel] | None) -> dict[str, Any]:
    schema = (
        {"$ref": _REF.format(model=model.__name__)} if model else {"type": "object"}
    )
    return {"application/json": {"schema": schema}}


Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """The endpoints of a server."""

    def __init__(self, searches: Searches) -> None:
        self._searches = searches
        self.shelf, self._log = searches.shelf, searches.log
        self.pool, self.metrics = searches.pool, searches.metrics

    def routes(self) -> list[Route]:
        """List the routes of the server, then those of each finder under its name."""
        own = [
            Route("/healthz", self._counted("/healthz", self._report_health)),
            Route("/metrics", self._counted("/metrics", self._report_metrics)),
            Route("/openapi.json", self._counted("/openapi.json", self._report_api)),
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
            route("/facets", self._list_facets, "GET"),
            route("/nearest", self._find_nearest, "GET"),
            route("/feedback", self._log_choice, "POST"),
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
        if request.method == "POST":
            batch = await read_body(request, SearchBatch)
            results = await self._searches.run(name, batch.queries, batch, _encode)
            body = b'{"results":[%s]}' % b",".join(results)
        else:
            one = read_parameters(request, SearchQuery)
            [body] = await self._searches.run(name, [one.q], one, _encode)
        return Response(body, media_type="application/json")

    async def _describe(self, name: str, request: Request) -> Response:
        finder = self.shelf[name]
        tool = finder.describe(request.path_params["tool"])
        if tool is None:
            raise RefusalError(
                404, "There is no tool of this name. /search gives the names."
            )
        content = tool.model_dump(mode="json")
        return JSONResponse({**content, "function": finder.function(tool)})

    async def _list_facets(self, name: str, request: Request) -> Response:  # noqa: ARG002
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
                "pinned": list_summaries(finder.pinned),
                "has_requests": finder.requests is not None,
                "logs": self._log is not None,
            }
        )

    async def _find_nearest(self, name: str, request: Request) -> Response:
        query, finder = read_parameters(request, NearestQuery).q, self.shelf[name]
        near = await self.pool.run(lambda: finder.nearest_requests(query, _NEAREST))
        return JSONResponse(
            {"requests": [{"query": one.query, "tools": one.tools} for one in near]}
        )

    async def _log_choice(self, name: str, request: Request) -> Response:
        if self._log is None:
            raise RefusalError(
                404, "This server keeps no log. Start it with --log FILE."
            )
        choice = await read_body(request, ToolChoice)
        if not self._log.chose(name, choice.search, choice.tool):
            raise RefusalError(
                404, "This search is unknown, or it did not find that tool."
            )
        return JSONResponse({"logged": True})

    async def _report_health(self, request: Request) -> Response:  # noqa: ARG002
        finders = {
            name: {
                "version": self.shelf[name].version,
                "tools": len(self.shelf[name].tools),
            }
            for name in self.shelf.names
        }
        content = {"status": "ok", "toolbank": __version__, "finders": finders}
        return JSONResponse(content)

    async def _report_metrics(self, request: Request) -> Response:  # noqa: ARG002
        totals = {
            "toolbank_searches_running": self.pool.running,
            "toolbank_searches_refused_total": self.pool.refused,
            "toolbank_reloads_total": self.shelf.reloads,
        }
        if self._log is not None:
            totals["toolbank_log_lines_lost_total"] = self._log.lost
        sizes = [
            (f'finder="{name}",version="{self.shelf[name].version}"', self.shelf[name])
            for name in self.shelf.names
        ]
        gauges = [(name, "", value) for name, value in totals.items()] + [
            ("toolbank_finder_tools", f"{{{labels}}}", len(finder.tools))
            for labels, finder in sizes
        ]
        return PlainTextResponse(
            self.metrics.text(gauges),
            media_type="text/plain; version=0.0.4; charset=utf-8",
        )

    async def _report_api(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(describe_api(self.shelf.names))


def _encode(content: dict[str, Any]) -> bytes:
    return bytes(JSONResponse(content).body)
