"""The mapping file: which paths lead to which servers, and with which certificates. Pure but for
reading the file."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pykcp.clients.credential_files import CredentialError

CLUSTERS = "/clusters/"
_FIELDS = {
    "path", "backend", "backend_server_ca", "proxy_client_cert", "proxy_client_key",
    "user_header", "group_header", "extra_header_prefix",
}  # fmt: skip
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+").fullmatch
"""A header's name, in lower case."""


class PathMapping(NamedTuple):
    """One entry of the file."""

    path: str
    backend: str
    backend_server_ca: str = ""
    """"" for the authorities of the system."""
    proxy_client_cert: str = ""
    proxy_client_key: str = ""
    user_header: str = "x-remote-user"
    group_header: str = "x-remote-group"
    extra_header_prefix: str = "x-remote-extra-"

    @property
    def is_for_shards(self) -> bool:
        """The server is the shard of the logical cluster, whatever `backend` says."""
        return self.path.rstrip("/") == CLUSTERS[:-1]


_REQUIRED = ("backend_server_ca", "proxy_client_cert", "proxy_client_key")


def load_mappings(path: str, required: Sequence[str] = _REQUIRED) -> list[PathMapping]:
    """Raises CredentialError for a file that cannot be used.

    `required`: fields that every mapping has to have, besides path and backend.
    """
    import yaml

    try:
        document = yaml.safe_load(pathlib.Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise CredentialError(f"cannot read {path}: {reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise CredentialError(f"{path}: not YAML{where}") from None
    if document is None:
        document = []
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise CredentialError(f"{path}: must be a list of mappings")
    return [_read(path, entry, required) for entry in document]


def _read(file: str, entry: dict[str, Any], required: Sequence[str]) -> PathMapping:
    where = f"{file}: mapping for path {entry.get('path')!r}"
    given: dict[str, str] = {}
    for name in _FIELDS & set(entry):
        value = entry[name]
        if not isinstance(value, str):
            raise CredentialError(f"{where}: {name} must be a string")
        if value:
            given[name] = value.lower() if "header" in name else value
    for name in ("path", "backend", *required):
        if name not in given:
            raise CredentialError(f"{where}: {name} is required")
    for name in ("user_header", "group_header", "extra_header_prefix"):
        if name in given and not _NAME(given[name]):
            raise CredentialError(f"{where}: {name} is not the name of a header")
    if not given["path"].startswith("/"):
        raise CredentialError(f"{where}: the path must begin with a slash")
    url = urlsplit(given["backend"])
    if url.scheme not in ("https", "http") or not url.netloc or url.query:
        raise CredentialError(f"{where}: backend is not an http or https URL")
    return PathMapping(**given)


class Matched(NamedTuple):
    """A mapping and what stands in the path for its placeholders."""

    mapping: int
    """Its number in the file."""
    cluster: str = ""
    """The logical cluster that the path names; "" if none."""


class _Pattern(NamedTuple):
    """`/services/{cluster}/x` as segments; None stands for one of any name."""

    segments: tuple[str | None, ...]
    cluster_at: int
    mapping: int


class MappingMatcher:
    """Finds the mapping of a path: the longest prefix wins; `{name}` stands for one segment."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._default = next((i for i, path in enumerate(paths) if path == "/"), None)
        found = [_pattern(path, i) for i, path in enumerate(paths) if path.strip("/")]
        found.sort(key=lambda p: (-len(p.segments), sum(s is None for s in p.segments)))
        self._patterns = found

    def find(self, path: str) -> Matched | None:
        """`path`: decoded. A concrete cluster is that of `{cluster}`, or of `/clusters/<name>`."""
        segments = path[1:].split("/")
        for pattern in self._patterns:
            if _fits(pattern.segments, segments):
                at = pattern.cluster_at
                cluster = segments[at] if at >= 0 else cluster_in(path)
                return Matched(pattern.mapping, cluster)
        return None if self._default is None else Matched(self._default, cluster_in(path))


def _pattern(path: str, index: int) -> _Pattern:
    parts = path.strip("/").split("/")
    segments = tuple(None if _is_placeholder(part) else part for part in parts)
    at = next((i for i, part in enumerate(parts) if part == "{cluster}"), -1)
    return _Pattern(segments, at, index)


def _is_placeholder(part: str) -> bool:
    return part.startswith("{") and part.endswith("}")


def _fits(pattern: tuple[str | None, ...], segments: list[str]) -> bool:
    if len(segments) < len(pattern):
        return False
    return all(
        want == have if want is not None else have
        for want, have in zip(pattern, segments, strict=False)
    )


def cluster_in(path: str) -> str:
    """What stands behind the first `/clusters/` of a path; "" if there is none."""
    _, found, rest = path.partition(CLUSTERS)
    return rest.partition("/")[0] if found else ""
