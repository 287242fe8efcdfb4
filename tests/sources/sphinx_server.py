"""A small Sphinx site on loopback, made in the test's folder."""

import shutil
import ssl
import threading
import zlib
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.corpus_files import CORPUS
from toolbank.sources.sphinx.inventory import INVENTORY_HEAD

PAGE = "<!DOCTYPE html><html><body><main>{}</main></body></html>"


class SiteServer:
    """Serves a folder; `asked` are the paths in order, `statuses` are answers forced on paths.

    Each of `answers` is a function that answers a path on the handler's bare socket, and
    `conditions` says what each request asked for to be changed. `connections` counts sockets.
    Forced answers of a path are given one after another, the last of them for ever. A request
    for one of the `hanging` waits until `released` is set.
    """

    def __init__(self, folder):
        self.asked = []
        self.connections = 0
        self.conditions = []
        self.answers = {}
        self.agents = set()
        self.statuses = {}
        self.hanging = set()
        self.released = threading.Event()
        self.redirects = {}
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=str(folder))

            def do_GET(self):
                site.asked.append(self.path)
                site.agents.add(self.headers["User-Agent"])
                conditions = ("If-None-Match", "If-Modified-Since")
                site.conditions.append((self.path, *map(self.headers.get, conditions)))
                if self.path in site.answers:
                    self.close_connection = True
                    site.answers[self.path](self)
                    return
                if self.path in site.hanging:
                    site.released.wait(60)
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

            def log_message(self, *args): ...

        class Server(ThreadingHTTPServer):
            def process_request(self, request, client_address):
                site.connections += 1
                super().process_request(request, client_address)

            def handle_error(self, request, client_address): ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def use_own_certificate(self, folder):
        """Speak TLS from now on, with a certificate that no one else has signed."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "docs.example")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now)
            .not_valid_after(now + timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        path = folder / "certificate.pem"
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        form = serialization.PrivateFormat.TraditionalOpenSSL
        secret = key.private_bytes(pem, form, plain)
        path.write_bytes(certificate.public_bytes(pem) + secret)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self):
        serve = partial(self._server.serve_forever, poll_interval=0.01)
        threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Go away: nothing listens any more."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def pack_inventory(lines, head="# Project: Sample\n# Version: 1.2"):
    """The bytes of an objects.inv with these lines, "NAME DOMAIN:ROLE 1 URI -"."""
    start = f"{INVENTORY_HEAD.decode()}\n{head}\n# with zlib\n"
    return start.encode() + zlib.compress(lines.encode())


def write_inventory(folder, objects):
    """Write objects.inv: (domain:role, name, uri) each."""
    lines = "".join(f"{name} {kind} 1 {uri} -\n" for kind, name, uri in objects)
    (folder / "objects.inv").write_bytes(pack_inventory(lines))


def copy_site(name, folder):
    """Copy a site of tests/corpus; objects.txt becomes its inventory."""
    shutil.copytree(CORPUS / "sites" / name, folder)
    for listed in folder.rglob("objects.txt"):
        packed = pack_inventory(listed.read_text("utf-8"))
        listed.with_suffix(".inv").write_bytes(packed)


def described(name, body, signature="", role="function"):
    """A page's `dl` of one object; `signature` is HTML that follows its name."""
    module, _, last = name.rpartition(".")
    return (
        f'<dl class="py {role}"><dt class="sig sig-object py" id="{name}">'
        f'<span class="sig-prename descclassname"><span class="pre">{module}.</span></span>'
        f'<span class="sig-name descname"><span class="pre">{last}</span></span>{signature}'
        f'<a class="headerlink" href="#{name}">¶</a></dt><dd>{body}</dd></dl>'
    )


def signed(*parameters):
    inner = ", ".join(
        f'<em class="sig-param"><span class="n">{p}</span></em>' for p in parameters
    )
    return f'<span class="sig-paren">(</span>{inner}<span class="sig-paren">)</span>'


SMALL_YAML = """
base_url: https://small.example/doc/
objects:
  roles: [function]
  parents: [small]
"""


def write_small_site(root, pages=4):
    """Write site/ with a page each for small.f0, small.f1, ..., and crawlers/small.yaml."""
    names = [f"small.f{n}" for n in range(pages)]
    (root / "site").mkdir(parents=True)
    for name in names:
        body = described(name, f"<p>Do {name}.</p>", signed("a"))
        (root / "site" / f"{name}.html").write_text(PAGE.format(body), "utf-8")
    objects = [("py:function", name, f"{name}.html#$") for name in names]
    write_inventory(root / "site", objects)
    (root / "crawlers").mkdir()
    (root / "crawlers" / "small.yaml").write_text(SMALL_YAML)
