"""The page on which people search."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}


def page_routes(names: tuple[str, ...]) -> list[Route]:
    """The page and its files at the root and behind each finder's name."""
    here = files("toolbank.serve")
    contents = {name: (here / name).read_bytes() for name in _KINDS}

    def route(path: str, name: str) -> Route:
        async def respond(request: Request) -> Response:  # noqa: ARG001
            return Response(contents[name], media_type=_KINDS[name])

        return Route(path, respond)

    async def add_slash(request: Request) -> Response:
        return RedirectResponse(f"{request.url.path}/")

    found = [route(path, name) for path, name in page_paths(names).items()]
    return found + [Route(f"/{name}", add_slash) for name in names]


def page_paths(names: tuple[str, ...]) -> dict[str, str]:
    """Where the page and its files are: the file of each path."""
    return {
        f"{prefix}/" + ("" if name == "index.html" else name): name
        for prefix in ("", *(f"/{name}" for name in names))
        for name in _KINDS
    }
