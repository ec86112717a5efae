"""A local stand-in of the Hugging Face Hub, which speaks the endpoints that `huggingface_hub` calls."""

import base64
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import unquote

TOKEN = "hf_token"

Files = dict[str, bytes]


class Hub(BaseHTTPRequestHandler):
    """Answers from repositories: for each name its branches, and for each branch the files of its commits."""

    repositories: ClassVar[dict[str, dict[str, list[Files]]]] = {}
    large_files: ClassVar[Files] = {}

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        """Answer a request of any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, address = unquote(self.path.partition("?")[0]), f"http://{self.headers['Host']}"
        if self.command == "POST" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"error": "Invalid username or password."})
        if path == "/api/validate-yaml":
            return self._send(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            request = json.loads(body)
            name = f"{request['organization']}/{request['name']}"
            new = self.repositories.setdefault(name, {"main": []})["main"] == []
            return self._send(200 if new else 409, {"url": f"{address}/{name}"})
        if path.startswith("/lfs/"):
            self.large_files[path.removeprefix("/lfs/")] = body
            return self._send(200, {})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = [{"upload": {"href": f"{address}/lfs/{each['oid']}"}} for each in objects]
            objects = [{**each, "actions": action} for each, action in zip(objects, actions, strict=True)]
            return self._send(200, {"transfer": "basic", "objects": objects})
        match = re.fullmatch(r"(?:/api/models)?/(\w+/\w+)(?:/(\w+)/(\w+))?(?:/(.*))?", path)
        name, action, revision, file = match.groups() if match else ("", "", "", "")
        if name not in self.repositories:
            return self._send(404, {}, {"X-Error-Code": "RepoNotFound"})
        branches = self.repositories[name]
        if action == "branch":
            branches[revision] = []
            return self._send(200, {})
        if action == "preupload":
            for each in (files := json.loads(body)["files"]):
                mode = "lfs" if each["path"].endswith(".safetensors") else "regular"
                each |= {"uploadMode": mode, "shouldIgnore": False}
            return self._send(200, {"files": files})
        if action == "commit":
            added = {}
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    added[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    added[value["path"]] = self.large_files[value["oid"]]
            branches[revision].append(added)
            oid = _commit_id(added)
            return self._send(200, {"commitUrl": f"{address}/{name}/commit/{oid}", "commitOid": oid})
        commits = {branch: commits[-1] for branch, commits in branches.items()}
        commits |= {_commit_id(files): files for branch in branches.values() for files in branch}
        if (revision or "main") not in commits:
            return self._send(404, {}, {"X-Error-Code": "RevisionNotFound"})
        files = commits[revision or "main"]
        if action == "tree":
            tree = [{"type": "file", "path": path, "size": len(files[path]), "oid": "0"} for path in files]
            return self._send(200, tree)
        if action == "resolve":
            headers = {"ETag": f'"{_digest(files[file])}"', "X-Repo-Commit": _commit_id(files)}
            return self._send(200, files[file], headers)
        return self._send(200, {"id": name, "sha": _commit_id(files), "private": False})

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


for method in ("HEAD", "POST", "PUT"):
    setattr(Hub, f"do_{method}", Hub.do_GET)


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def _commit_id(files: Files) -> str:
    return _digest(b"".join(name.encode() + data for name, data in sorted(files.items())))
