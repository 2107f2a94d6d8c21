"""Servers as kubeconfigs describe them: address, trust, and the client's certificate or token."""

from __future__ import annotations

import base64
import binascii
import logging
import pathlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pykcp.clients.credential_files import CredentialError, read
from pykcp.clients.errors import tls_problem
from pykcp.types import Object
from pykcp.wire.tls_trust import verifying_context

_log = logging.getLogger(__name__)
_LONGEST = 64 * 1024
"""Characters of a kubeconfig that a tenant wrote: YAML is slow to read."""
_MOST_NAMED, _LONGEST_NAME = 5, 100
"""Names in a message, and characters of one."""
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True, slots=True)
class KubeconfigServer:
    """What a kubeconfig says about a server and how to speak to it."""

    url: str
    authority: bytes = b""
    authority_file: str = ""
    skip_verify: bool = False
    server_name: str = ""
    certificate: bytes = b""
    certificate_file: str = ""
    key: bytes = field(default=b"", repr=False)
    key_file: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    proxy: str = ""
    plugin: Object | None = None
    """A credential plugin (`exec`), only where it was asked for: it is a program that is run."""
    cluster: Object = field(default_factory=dict)
    """The cluster's entry as it is, for a credential plugin."""

    @property
    def files(self) -> tuple[str, ...]:
        names = (self.authority_file, self.certificate_file, self.key_file)
        return tuple(name for name in names if name)


def load_endpoint(
    path: str, context: str = "", url: str = "", *, runs_plugins: bool = False
) -> KubeconfigServer:
    """The server of a kubeconfig's context, or of its current one. Raises CredentialError.

    `url`: of another server, with which the trust and credentials of the kubeconfig are used;
    `runs_plugins`: whether credential plugins may be used. Servers do not run any, since a
    kubeconfig that they are given would then decide which programs they run.
    """
    document = _document(path, lambda: read(pathlib.Path(path)))
    return _Kubeconfig(path, document, runs_plugins=runs_plugins).endpoint(context, url)


def parse_endpoint(text: str, what: str = "kubeconfig") -> KubeconfigServer:
    """The server of a kubeconfig that a tenant wrote. Raises CredentialError.

    It may run no program and name no files: they would be those of this server. It may not refer
    to parts of itself: a few lines could stand for more than there is memory.
    """
    if len(text) > _LONGEST:
        raise CredentialError(f"{what}: longer than {_LONGEST} characters")
    if _has_aliases(text):
        raise CredentialError(f"{what}: aliases and merge keys cannot be used here")
    document = _document(what, lambda: text)
    return _Kubeconfig(what, document, reads_files=False).endpoint()


def _has_aliases(text: str) -> bool:
    """Whether YAML refers to parts of itself. What is no YAML is left to `_document`."""
    import yaml

    try:
        for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.AliasEvent):
                return True
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<":
                return True
    except (yaml.YAMLError, ValueError, RecursionError):
        pass
    return False


def _document(path: str, content: Callable[[], bytes | str]) -> Object:
    import yaml

    text = content()
    try:
        # The loader in C takes a tenth of the time, where libyaml is there.
        document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        last = len(text.splitlines())
        where = f" in line {min(mark.line + 1, last)}" if mark is not None else ""
        raise CredentialError(f"{path}: not YAML{where}") from None
    except (ValueError, RecursionError):
        raise CredentialError(f"{path}: not a kubeconfig") from None
    if not isinstance(document, dict):
        raise CredentialError(f"{path}: not a kubeconfig")
    return document


class _Kubeconfig:
    def __init__(
        self, path: str, document: Object, *, runs_plugins: bool = False, reads_files: bool = True
    ) -> None:
        self._path, self._document, self._reads_files = path, document, reads_files
        self._refused = ("auth-provider",) if runs_plugins else ("exec", "auth-provider")
        self._folder = pathlib.Path(path).parent

    def endpoint(self, asked: str = "", url: str = "") -> KubeconfigServer:
        current = asked or self._document.get("current-context")
        if not current:
            raise self._error("current-context is not set")
        context = self._named("contexts", "context", current)
        cluster = self._named("clusters", "cluster", context.get("cluster"))
        user = self._named("users", "user", context["user"]) if context.get("user") else {}
        for method in (*self._refused, *(() if self._reads_files else _IMPERSONATION)):
            if user.get(method):
                raise self._error(f"users cannot use {method} here")
        url = url or self._text(cluster, "server")
        if _scheme(url) not in ("https", "http"):
            raise self._error("server is not an http or https URL")
        if _scheme(url) == "http":
            _log.warning("%s: the server is called without TLS", self._path)
        authority_file, authority = self._material(cluster, "certificate-authority")
        certificate_file, certificate = self._material(user, "client-certificate")
        key_file, key = self._material(user, "client-key")
        found = KubeconfigServer(
            url,
            authority,
            authority_file,
            bool(cluster.get("insecure-skip-tls-verify")),
            self._text(cluster, "tls-server-name"),
            certificate,
            certificate_file,
            key,
            key_file,
            self._text(user, "token"),
            self._file(user, "tokenFile"),
            self._text(user, "username"),
            self._text(user, "password"),
            self._text(cluster, "proxy-url"),
            user.get("exec"),
            cluster,
        )
        make_context(found)  # what cannot be used shall be known at the start
        return found

    def _error(self, text: str) -> CredentialError:
        return CredentialError(f"{self._path}: {text}")

    def _named(self, section: str, key: str, name: Any) -> Object:
        listed = self._document.get(section)
        entries = (
            [entry for entry in listed if isinstance(entry, dict)]
            if isinstance(listed, list)
            else []
        )
        for entry in entries:
            if entry.get("name") == name:
                found = entry.get(key)
                if isinstance(found, dict):
                    return found
        known = ", ".join(_cut(entry.get("name")) for entry in entries[:_MOST_NAMED]) or "none"
        more = f" and {len(entries) - _MOST_NAMED} more" if len(entries) > _MOST_NAMED else ""
        raise self._error(f'{key} "{_cut(name)}" does not exist; there are: {known}{more}')

    def _text(self, entry: Object, name: str) -> str:
        value = entry.get(name)
        if value is not None and not isinstance(value, str):
            raise self._error(f"{name} is not a string")
        return value or ""

    def _file(self, entry: Object, name: str) -> str:
        value = entry.get(name)
        if value and not self._reads_files:
            raise self._error(f"{name} cannot be used here: write its content into the kubeconfig")
        return str(self._folder / value) if isinstance(value, str) and value else ""

    def _material(self, entry: Object, name: str) -> tuple[str, bytes]:
        """Either a file's name or what it would hold."""
        data = entry.get(f"{name}-data")
        if not data:
            return self._file(entry, name), b""
        try:
            return "", base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise self._error(f"{name}-data is not base64") from None


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _cut(name: Any) -> str:
    """A name as messages show it; what is none may be anything."""
    text = name if isinstance(name, str) else type(name).__name__
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def make_context(endpoint: KubeconfigServer) -> ssl.SSLContext:
    """TLS with the authority and the certificate of the kubeconfig. Raises CredentialError."""
    authority = endpoint.authority or (
        read(pathlib.Path(endpoint.authority_file)) if endpoint.authority_file else b""
    )
    try:
        context = verifying_context(authority.decode("ascii"))
        if endpoint.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_pair(context, endpoint)
    except (ssl.SSLError, UnicodeDecodeError, OSError) as error:
        reason = tls_problem(error) if isinstance(error, ssl.SSLError) else error
        raise CredentialError(f"TLS of {_cut(endpoint.url)}: {reason}") from error
    return context


def _load_pair(context: ssl.SSLContext, endpoint: KubeconfigServer) -> None:
    if not (endpoint.certificate or endpoint.certificate_file):
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pykcp-") as folder:  # ssl reads files only
        names: list[str] = []
        for data, name in (
            (endpoint.certificate, endpoint.certificate_file),
            (endpoint.key, endpoint.key_file),
        ):
            path = pathlib.Path(name)
            if data:
                path = pathlib.Path(folder) / f"{len(names)}.pem"
                path.touch(mode=0o600)
                path.write_bytes(data)
            names.append(str(path))
        context.load_cert_chain(names[0], names[1] if names[1] != "." else None)
