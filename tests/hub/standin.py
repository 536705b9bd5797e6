"""A stand-in for the Hub on loopback: repositories in memory, the calls that the libraries make, and some faults.

A repository's name chooses the fault: "silent" accepts and never answers, "drop-once" loses the connection in the
middle of the first commit, "drop-always" of every one. `TOKEN` is the user "user"; all else is somebody else's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_user"
_LARGE = 2000  # bytes from which a file goes by way of LFS


@dataclass
class Repository:
    files: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0
    private: bool = False

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"


class StandIn(ThreadingHTTPServer):
    """Serves on a free port of loopback.

    Attributes:
        repositories: (type, id) -> what it holds.
        blobs: of LFS, by sha256.
        calls: "METHOD path" in order of arrival.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[tuple[str, str], Repository] = {("model", "other/taken"): Repository()}
        self.blobs: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def environment(self, cache: Any) -> dict[str, str]:
        """Variables of a client process whose caches lie in the folder ``cache``."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HOME": str(cache),
            "HF_HUB_OFFLINE": "0",
            "HF_EVALUATE_OFFLINE": "0",
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "127.0.0.1",
        }


@contextmanager
def standin() -> Iterator[StandIn]:
    """A running server; it ends with the block."""
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.path = unquote(urlsplit(self.path).path)
        self.server.calls.append(f"{self.command} {self.path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        verb = "GET" if self.command == "HEAD" else self.command
        for method, pattern, act in _ROUTES:
            match = re.fullmatch(pattern, self.path)
            if method == verb and match:
                return act(self, *match.groups())
        self._fail(404, "no such call")

    # answers

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _fail(self, status: int, why: str, code: str = "") -> None:
        headers = {"X-Error-Message": why, **({"X-Error-Code": code} if code else {})}
        self._json({"error": why}, status, headers)

    def _known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _repository(self, kind: str, name: str, *, write: bool = False) -> Repository | None:
        """The repository; or None, and the error is sent."""
        found = self.server.repositories.get((kind, name))
        if found is None or (found.private and not self._known()):
            self._fail(404 if self._known() else 401, "Repository not found", "RepoNotFound")
            return None
        if write and not (self._known() and name.startswith("user/")):
            self._fail(403, "You don't have the required permissions")
            return None
        return found

    # calls

    def whoami(self) -> None:
        if self._known():
            self._json({"type": "user", "name": "user", "auth": {"accessToken": {"role": "write"}}, "orgs": []})
        else:
            self._fail(401, "Invalid credentials")

    def create(self) -> None:
        asked = json.loads(self.body)
        kind, owner = asked.get("type", "model"), asked.get("organization") or "user"
        name = f"{owner}/{asked['name']}"
        if asked["name"] == "silent":
            self.server.closing.wait()
            return
        plural = "" if kind == "model" else f"{kind}s/"
        url = {"url": f"{self.server.url}/{plural}{name}"}
        if not self._known():
            self._fail(401, "Invalid credentials")
        elif (kind, name) in self.server.repositories:
            self._json({"error": "You already created this repo", **url}, 409)
        elif owner != "user":
            self._fail(403, f"You don't have the rights to create a repo under the namespace {owner}")
        else:
            private = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.server.repositories[kind, name] = Repository(private=private)
            self._json(url)

    def validate(self) -> None:
        """Of the Hub's rules only this: the metadata is YAML, and an entry of the model-index is complete."""
        text, errors = json.loads(self.body)["content"], []
        head = re.match(r"---\r?\n(.*?)\r?\n---", text, re.DOTALL)
        found = yaml.safe_load(head.group(1)) if head else {}
        for entry in found.get("model-index", []):
            for result in entry["results"]:
                if not {"type", "name"} <= result.get("dataset", {}).keys():
                    errors.append('"model-index[0].results[0].dataset.type" is required')
                errors += ["a value is no number" for m in result["metrics"] if m.get("value") != m.get("value")]
        self._json(
            {"errors": [{"message": e} for e in errors], "warnings": []} if errors else {}, 400 if errors else 200
        )

    def preupload(self, kind: str, name: str, revision: str) -> None:
        if self._repository(kind, name, write=True) is not None:
            asked = json.loads(self.body)["files"]
            modes = {f["path"]: "lfs" if f["size"] > _LARGE else "regular" for f in asked}
            answer = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
            self._json({"files": answer})

    def batch(self, plural: str | None, name: str) -> None:
        asked, objects = json.loads(self.body)["objects"], []
        for item in asked:
            put = {"href": f"{self.server.url}/blob/{item['oid']}", "header": {}}
            known = item["oid"] in self.server.blobs
            objects.append({**item, **({} if known else {"actions": {"upload": put}})})
        self._json({"transfer": "basic", "objects": objects}, headers={"Content-Type": "application/vnd.git-lfs+json"})

    def put_blob(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            return self._fail(400, "the blob has another sha256")
        self.server.blobs[oid] = self.body
        self._send(200, b"")

    def commit(self, kind: str, name: str, revision: str) -> None:
        repository = self._repository(kind, name, write=True)
        if repository is None:
            return
        tries = self.server.calls.count(f"POST {self.path}")
        if "drop-always" in name or ("drop-once" in name and tries == 1):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        for line in self.body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                repository.files[value["path"]] = self.server.blobs[value["oid"]]
            elif item["key"] == "deletedFile":
                repository.files.pop(value["path"], None)
        repository.commits += 1
        self._json({"commitUrl": f"{self.server.url}/{name}/commit/{repository.sha}", "commitOid": repository.sha})

    def info(self, kind: str, name: str, revision: str | None = None) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return
        if revision not in (None, "main", repository.sha):
            return self._fail(404, "Invalid rev id", "RevisionNotFound")
        siblings = [{"rfilename": path, "size": len(content)} for path, content in repository.files.items()]
        about = {"id": name, "sha": repository.sha, "private": repository.private, "siblings": siblings}
        self._json({**about, "tags": [], "downloads": 0, "likes": 0, "gated": False, "disabled": False})

    def tree(self, kind: str, name: str, revision: str, folder: str | None) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return
        start = f"{folder.strip('/')}/" if folder and folder.strip("/") else ""
        held = {path: content for path, content in repository.files.items() if path.startswith(start)}
        if start and not held:
            return self._fail(404, "no such folder", "EntryNotFound")
        self._json(
            [
                {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for path, content in held.items()
            ]
        )

    def resolve(self, plural: str | None, name: str, revision: str, path: str) -> None:
        repository = self._repository((plural or "models")[:-1], name)
        if repository is None:
            return
        if revision not in ("main", repository.sha):
            return self._fail(404, "Invalid rev id", "RevisionNotFound")
        if path not in repository.files:
            return self._fail(404, "no such file", "EntryNotFound")
        content = repository.files[path]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        self._send(200, content, {"ETag": etag, "X-Repo-Commit": repository.sha, "Content-Type": "text/plain"})


_ID = r"([\w.-]+/[\w.-]+)"
_KIND = r"/api/(model|dataset|space)s/"
_ROUTES = [
    ("GET", "/api/whoami-v2", _Handler.whoami),
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("POST", rf"{_KIND}{_ID}/preupload/(.+)", _Handler.preupload),
    ("POST", rf"{_KIND}{_ID}/commit/(.+)", _Handler.commit),
    ("GET", rf"{_KIND}{_ID}/tree/([^/]+)(/.*)?", _Handler.tree),
    ("GET", rf"{_KIND}{_ID}(?:/revision/(.+))?", _Handler.info),
    ("POST", rf"/(datasets/|spaces/)?{_ID}\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", r"/blob/(\w+)", _Handler.put_blob),
    ("GET", rf"/(?:(datasets|spaces)/)?{_ID}/resolve/([^/]+)/(.+)", _Handler.resolve),
]
