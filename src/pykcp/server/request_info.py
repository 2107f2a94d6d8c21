"""Request attributes: cluster, group, version, resource, name and verb. Pure.

The rules are Kubernetes': `/api/<version>/…` and `/apis/<group>/<version>/…` are
resource requests, everything else is a path. In front may stand
`/clusters/<path>`, kcp's address of a logical cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pykcp.server import escapes

_CLUSTERS = "/clusters/"
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERBS_IN_PATHS = frozenset(("watch", "proxy"))
"""`/api/v1/watch/…` is still served; `/api/v1/proxy/…` has no meaning but a verb of its own."""
_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))


@dataclass(slots=True)
class RequestInfo:
    """A request, understood; `is_resource` is False for plain paths."""

    method: str
    path: str
    """The path below the cluster prefix, decoded."""
    cluster: str = ""
    """What stood behind /clusters/: a name, a path, `*`, or "" if there was no prefix."""
    base: str = ""
    """The part of the URL before the path, for links to this server."""
    verb: str = ""
    is_resource: bool = False
    api_prefix: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    in_namespace: bool = False
    """The path went through `namespaces/<name>/` (so the resource has to be namespaced)."""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    identity: str = ""
    parts: tuple[str, ...] = ()
    query: dict[str, list[str]] = field(default_factory=dict)

    def param(self, name: str) -> str:
        """The first value of a query parameter, "" if absent."""
        values = self.query.get(name)
        return values[0] if values else ""

    def is_true(self, name: str) -> bool:
        """Booleans in queries as Go's conversion reads them: anything but false and 0 is true."""
        values = self.query.get(name)
        return values is not None and values[0].lower() not in _FALSE


_FALSE = frozenset(("false", "0"))


def split_cluster(path: str) -> tuple[str, str]:
    """`/clusters/root:a/api/v1` → (`root:a`, `/api/v1`); no prefix gives ("", path)."""
    if not path.startswith(_CLUSTERS):
        return "", path
    end = path.find("/", len(_CLUSTERS))
    if end < 0:
        return path[len(_CLUSTERS) :], "/"
    return path[len(_CLUSTERS) : end], path[end:]


def parse(method: str, raw_path: str, raw_query: str) -> RequestInfo:
    path = escapes.decode(raw_path) if "%" in raw_path else raw_path
    cluster, path = split_cluster(path)
    base = f"{_CLUSTERS}{cluster}" if cluster else ""
    return understand(method, path, raw_query, cluster=cluster, base=base)


def understand(
    method: str, path: str, raw_query: str, *, cluster: str = "", base: str = ""
) -> RequestInfo:
    """A request for `path`, which is decoded, in a cluster that is known."""
    info = RequestInfo(method, path, cluster, base)
    if raw_query:
        info.query = parse_query(raw_query)
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis") or "//" in path:
        info.verb = method.lower()
        return info
    if parts[0] == "api":
        rest = parts[1:]
    else:
        if len(parts) < 4:
            info.verb = method.lower()
            return info
        info.group = parts[1]
        rest = parts[2:]
    info.is_resource = True
    info.api_prefix = parts[0]
    info.version = rest[0]
    _read_resource(info, rest[1:])
    return info


MAX_PARAMETERS = 1000
TOO_MANY_PARAMETERS: dict[str, list[str]] = {"": []}
"""Stands for a query of more parameters: requests for resources are refused (`check_query`)."""


def parse_query(raw: str) -> dict[str, list[str]]:
    """Query parameters; pairs not properly escaped or with a semicolon are dropped, as Go does."""
    if raw.count("&") >= MAX_PARAMETERS:
        return TOO_MANY_PARAMETERS
    pairs = raw.split("&")
    if "%" in raw and escapes.has_bad(raw):
        pairs = [pair for pair in pairs if not escapes.has_bad(pair)]
    if ";" in raw:
        pairs = [pair for pair in pairs if ";" not in pair]
    if "+" in raw:
        pairs = [pair.replace("+", " ") for pair in pairs]
    found: dict[str, list[str]] = {}
    for pair in pairs:
        if pair:
            name, _, value = pair.partition("=")
            name = escapes.decode(name) if "%" in name else name
            value = escapes.decode(value) if "%" in value else value
            found.setdefault(name, []).append(value)
    return found


def _read_resource(info: RequestInfo, parts: list[str]) -> None:
    if parts[0] in _VERBS_IN_PATHS and len(parts) > 1:
        info.verb = parts[0]
        parts = parts[1:]
    else:
        info.verb = _VERBS.get(info.method, "")
    if parts[0] == "namespaces" and len(parts) > 1:
        info.namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
            info.in_namespace = True
    info.parts = tuple(parts)
    info.resource = parts[0]
    if ":" in info.resource:
        info.resource, info.identity = info.resource.split(":", 1)
    if len(parts) > 1:
        info.name = parts[1]
    if len(parts) > 2 and info.verb != "proxy":
        info.subresource = parts[2]
    if info.resource == "namespaces" and not info.namespace:
        info.namespace = info.name
    _refine_verb(info)


def _refine_verb(info: RequestInfo) -> None:
    if not info.name and info.verb == "get":
        info.verb = "list"
        if info.query:
            if info.is_true("watch"):
                info.verb = "watch"
            name = name_in_field_selector(info.param("fieldSelector"))
            if name and "/" not in name and "%" not in name and name not in (".", ".."):
                info.name = name
    elif not info.name and info.verb == "delete":
        info.verb = "deletecollection"


_NAME_TERM = re.compile(r"metadata\.name\s*=([^,]*)")


def name_in_field_selector(selector: str) -> str:
    """`metadata.name=x` lets a list be authorized like a get of x."""
    for term in _NAME_TERM.finditer(selector):
        before = term.start() - 1
        while before >= 0 and selector[before].isspace():
            before -= 1
        if before < 0 or selector[before] == ",":
            return term[1].lstrip("=").strip()
    return ""
