"""A small Sphinx site on loopback, made in the test's folder."""

from __future__ import annotations

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import sphobjinv

PAGE = "<!DOCTYPE html><html><body><main>{}</main></body></html>"


class SiteServer:
    """Serves a folder; `asked` are the paths in order, `statuses` are answers forced on paths.

    Forced answers of a path are given one after another, the last of them for ever. A request
    for one of the `hanging` waits until `released` is set; one that is `cut_off` gets no answer.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.statuses: dict[str, list[int]] = {}
        self.hanging: set[str] = set()
        self.cut_off: set[str] = set()
        self.released = threading.Event()
        self.redirects: dict[str, str] = {}
        self.types: dict[str, str] = {}
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.agents.add(self.headers["User-Agent"])
                if self.path in site.hanging:
                    site.released.wait(60)
                if self.path in site.cut_off:
                    self.close_connection = True
                    return
                forced = site.statuses.get(self.path, [])
                status = forced.pop(0) if len(forced) > 1 else (forced or [0])[0]
                if self.path in site.redirects:
                    self.send_response(302)
                    self.send_header("Location", site.redirects[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif status not in (0, 200):
                    self.send_error(status)
                else:
                    super().do_GET()

            def guess_type(self, path: Any) -> str:
                return site.types.get(self.path) or super().guess_type(path)

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def write_inventory(folder: Path, objects: list[tuple[str, str, str]]) -> None:
    """Write objects.inv: (domain:role, name, uri) each."""
    inventory = sphobjinv.Inventory()
    inventory.project, inventory.version = "Sample", "1.2"
    for kind, name, uri in objects:
        domain, role = kind.split(":")
        inventory.objects.append(
            sphobjinv.DataObjStr(
                name=name, domain=domain, role=role, priority="1", uri=uri, dispname="-"
            )
        )
    text = inventory.data_file()
    sphobjinv.writebytes(str(folder / "objects.inv"), sphobjinv.compress(text))


def described(name: str, body: str, signature: str = "", role: str = "function") -> str:
    """A page's `dl` of one object; `signature` is HTML that follows its name."""
    module, _, last = name.rpartition(".")
    return (
        f'<dl class="py {role}"><dt class="sig sig-object py" id="{name}">'
        f'<span class="sig-prename descclassname"><span class="pre">{module}.</span></span>'
        f'<span class="sig-name descname"><span class="pre">{last}</span></span>{signature}'
        f'<a class="headerlink" href="#{name}">¶</a></dt><dd>{body}</dd></dl>'
    )


def signed(*parameters: str) -> str:
    """The HTML of a signature's parentheses."""
    inner = ", ".join(
        f'<em class="sig-param"><span class="n">{p}</span></em>' for p in parameters
    )
    return f'<span class="sig-paren">(</span>{inner}<span class="sig-paren">)</span>'


def listing(*names: str) -> str:
    """An autosummary table that links to pages api/<name>.html."""
    rows = "".join(
        f'<tr><td><p><a class="reference internal" href="api/{name}.html#{name}" '
        f'title="{name}"><code>{name}</code></a></p></td><td><p>Words.</p></td></tr>'
        for name in names
    )
    return f'<table class="autosummary longtable"><tbody>{rows}</tbody></table>'
