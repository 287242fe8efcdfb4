"""The routes of a server, and their description as OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
            "post": _describe(
                "Find tools for several requests",
                answer=BatchContent,
                body=SearchBatch,
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
        "/feedback": {"post": _describe("Report the chosen tool", body=ToolChoice)},
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
    body: type[BaseModel] | None = None,
) -> dict[str, Any]:
    described = {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "success", "content": _content(answer)},
            "default": {"description": "an error", "content": _content(ErrorContent)},
        },
    }
    if body:
        described["requestBody"] = {"required": True, "content": _content(body)}
    return described


def _content(model: type[BaseModel] | None) -> dict[str, Any]:
    schema = (
        {"$ref": _REF.format(model=model.__name__)} if model else {"type": "object"}
    )
    return {"application/json": {"schema": schema}}


class Api:
    """The endpoints of a server."""

    def __init__(self, searches: Searches) -> None:
        self._searches = searches
        self.shelf, self._log = searches.shelf, searches.log
        self.pool, self.metrics = searches.pool, searches.metrics

    def routes(self) -> list[Route]:
        """List the routes of the server, then those of each finder under its name."""
        names = self.shelf.names
        return [
            self._route("/healthz", self._report_health),
            self._route("/metrics", self._report_metrics),
            self._route("/openapi.json", self._report_api),
            *(
                self._route(path, partial(answer, name), *methods, prefix=prefix)
                for prefix, name in [("", names[0]), *((f"/{n}", n) for n in names)]
                for path, answer, *methods in (
                    ("/search", self._search, "GET", "POST"),
                    ("/tools/{tool:path}", self._describe, "GET"),
                    ("/facets", self._list_facets, "GET"),
                    ("/nearest", self._find_nearest, "GET"),
                    ("/feedback", self._log_choice, "POST"),
                )
            ),
        ]

    def _route(self, path: str, answer: Any, *methods: str, prefix: str = "") -> Route:
        """Make a route whose responses are counted under its path without a parameter."""
        counted = path.partition("{")[0].rstrip("/")

        async def respond(request: Request) -> Response:
            status = 500
            try:
                response: Response = await answer(request)
                status = response.status_code
            except RefusalError as refusal:
                response, status = refusal.response(), refusal.status
            finally:
                self.metrics.requests[counted, status] += 1
            return response

        return Route(prefix + path, respond, methods=methods or ["GET"])

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
        near = await self.pool.run(
            lambda: finder.nearest_requests(query, _NEAREST),
            waits=finder.calls_endpoint,
        )
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
            name: {"version": finder.version, "tools": len(finder.tools)}
            for name, finder in self.shelf.items()
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
        gauges = [(name, "", value) for name, value in totals.items()]
        for name, finder in self.shelf.items():
            labels = f'{{finder="{name}",version="{finder.version}"}}'
            gauges.append(("toolbank_finder_tools", labels, len(finder.tools)))
        return PlainTextResponse(
            self.metrics.text(gauges),
            media_type="text/plain; version=0.0.4; charset=utf-8",
        )

    async def _report_api(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(describe_api(self.shelf.names))


def _encode(content: dict[str, Any]) -> bytes:
    return bytes(JSONResponse(content).body)
