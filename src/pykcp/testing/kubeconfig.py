"""Reading just enough of a kubeconfig to talk to a server."""

from __future__ import annotations

import base64
import pathlib
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True, slots=True)
class Access:
    """A server's address, the CA to trust, and a token or a client certificate."""

    host: str
    port: int
    path: str
    ca: str
    token: str
    certificate: tuple[str, str] | None = None
    """The files of a client certificate and its key."""


def read_access(path: pathlib.Path, context: str = "") -> Access:
    return _parsed(path.read_text(), context)


@lru_cache(maxsize=64)  # clients are made again and again, and YAML is slow to read
def _parsed(text: str, context: str) -> Access:
    config = yaml.safe_load(text)
    by_name = {
        kind: {e["name"]: e[kind[:-1]] for e in config[kind]}
        for kind in ("clusters", "contexts", "users")
    }
    chosen = by_name["contexts"][context or config["current-context"]]
    cluster = by_name["clusters"][chosen["cluster"]]
    url = urlsplit(cluster["server"])
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    token = by_name["users"][chosen["user"]].get("token", "")
    return Access(url.hostname or "", url.port or 443, url.path, ca, token)
