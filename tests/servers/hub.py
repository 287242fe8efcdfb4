"""A model hub on this machine: repositories of datasets, commits, files by git and by LFS.

It speaks what huggingface_hub 2 asks of one without Xet: create, info, tree, preupload, LFS batch,
upload, commit, resolve.
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_" + "t0ken" * 6
_LARGE = (".parquet", ".safetensors")


@dataclass
class Repository:
    private: bool
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b""})
    commits: list[dict] = field(default_factory=list)

    @property
    def sha(self):
        return hashlib.sha1(str(len(self.commits)).encode()).hexdigest()


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.seen_tokens: set[str] = set()
        self.broken = ""
        self.may_write = True

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving():
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def _answer(self):
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path.startswith("/upload/"):
            oid = path.removeprefix("/upload/")
            assert hashlib.sha256(body).hexdigest() == oid
            self.server.large[oid] = body
            return self._send(200, b"")
        if self.server.broken and self.server.broken in path:
            return self._say(500, error="broken")
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.server.seen_tokens.add(given)
        if given not in ("", TOKEN):
            return self._say(401, error="Invalid username or password.")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            head = json.loads(body)["content"].split("---\n")[1]
            assert yaml.safe_load(head)["configs"]
            return self._say(200, errors=[], warnings=[])
        kind, _, rest = path.strip("/").partition("/")
        if kind == "api":
            kind, _, rest = rest.partition("/")
        if kind != "datasets":
            return self._say(404, error="Not here")
        owner, name, *more = rest.split("/")
        name = f"{owner}/{name}"
        repository = self.server.repositories.get(name.removesuffix(".git"))
        if repository is None or (repository.private and given != TOKEN):
            return self._say(404, "RepoNotFound", "Repository not found")
        return self._of_repository(repository, name, more, body)

    def _create(self, wanted):
        if not self.server.may_write:
            return self._say(403, error="You don't have the rights to do that")
        name = f"{wanted['organization']}/{wanted['name']}"
        assert wanted["type"] == "dataset"
        private = wanted.get("visibility") == "private" or wanted.get("private", False)
        self.server.repositories[name] = Repository(private)
        return self._say(200, url=f"{self.server.url}/datasets/{name}")

    def _of_repository(self, repository, name, more, body):
        match more:
            case [] | ["revision", _]:
                if more and more[1] not in ("main", repository.sha):
                    return self._say(404, "RevisionNotFound", "Revision not found")
                siblings = [{"rfilename": path} for path in repository.files]
                about = {"id": name, "sha": repository.sha, "siblings": siblings}
                return self._say(200, **about, private=repository.private, tags=[])
            case ["tree", _, *_]:
                return self._send(200, json.dumps(list(_tree(repository))).encode())
            case ["preupload", _]:
                files = []
                for file in json.loads(body)["files"]:
                    mode = "lfs" if file["path"].endswith(_LARGE) else "regular"
                    row = {"path": file["path"], "uploadMode": mode}
                    files.append({**row, "shouldIgnore": False})
                return self._say(200, files=files)
            case ["info", "lfs", "objects", "batch"]:
                return self._say(200, **self._batch(json.loads(body)))
            case ["commit", _]:
                return self._commit(repository, name, body)
            case ["resolve", revision, *parts]:
                return self._resolve(repository, revision, "/".join(parts))
        raise AssertionError(more)

    def _batch(self, wanted):
        objects = []
        for one in wanted["objects"]:
            upload = {"href": f"{self.server.url}/upload/{one['oid']}"}
            objects.append({**one, "actions": {"upload": upload}})
        return {"transfer": "basic", "objects": objects}

    def _commit(self, repository, name, body):
        if not self.server.may_write:
            return self._say(403, error="You don't have the rights to do that")
        rows = [json.loads(line) for line in body.splitlines()]
        head = next(row["value"] for row in rows if row["key"] == "header")
        if head.get("parentCommit") not in (None, repository.sha):
            return self._say(412, error="The branch has moved on")
        for row in rows:
            value = row["value"]
            if row["key"] == "file":
                content = base64.b64decode(value["content"])
                repository.files[value["path"]] = content
            elif row["key"] == "lfsFile":
                repository.files[value["path"]] = self.server.large[value["oid"]]
            elif row["key"] == "deletedFile":
                del repository.files[value["path"]]
        repository.commits.append(head)
        url = f"{self.server.url}/datasets/{name}/commit/{repository.sha}"
        return self._say(200, commitUrl=url, commitOid=repository.sha, success=True)

    def _resolve(self, repository, revision, path):
        assert revision in ("main", repository.sha)
        if path not in repository.files:
            return self._say(404, "EntryNotFound", "Entry not found")
        content = repository.files[path]
        about = {"ETag": f'"{_etag(path, content)}"', "X-Repo-Commit": repository.sha}
        return self._send(200, content, **about)

    def _say(self, status, code="", error="", **content):
        headers = {"X-Error-Code": code, "X-Error-Message": error} if error else {}
        content = content or {"error": error}
        headers["Content-Type"] = "application/json"
        return self._send(status, json.dumps(content).encode(), **headers)

    def _send(self, status, content, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _tree(repository):
    for path, content in repository.files.items():
        row = {"type": "file", "path": path, "size": len(content)}
        if path.endswith(_LARGE):
            oid = hashlib.sha256(content).hexdigest()
            row["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
        yield {**row, "oid": hashlib.sha1(content).hexdigest()}


def _etag(path, content):
    kind = hashlib.sha256 if path.endswith(_LARGE) else hashlib.sha1
    return kind(content).hexdigest()
