"""The server, its CA and the user's credentials, from kubeconfig and flags."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pykcp.cli.plugins.access.kubeconfig import Files, Kubeconfig, Stanza, load
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import bracketed, parse_duration, quote
from pykcp.cli.plugins.shell.flags import Values

Object = dict[str, Any]
NOTHING_GIVEN = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_CLUSTER_FLAGS = ("server", "tls-server-name", "certificate-authority", "proxy-url")
_USER_FLAGS = {
    "token": "token",
    "username": "username",
    "password": "password",
    "client-certificate": "client-certificate",
    "client-key": "client-key",
    "as": "as",
    "as-uid": "as-uid",
    "as-group": "as-groups",
}


class ServerTarget(NamedTuple):
    """A server and the settings to connect to it."""

    host: str
    cluster: Object = {}  # noqa: RUF012 - never mutated
    user: Object = {}  # noqa: RUF012 - never mutated
    timeout: float | None = None

    def at(self, host: str) -> ServerTarget:
        return self._replace(host=host)


class ClientConfig:
    """The effective kubeconfig, and the flags that override parts of it.

    `redirect` turns the server's URL into that of the workspace which a flag names.
    """

    def __init__(
        self, files: Files, flags: Values, redirect: Callable[[str], str] | None = None
    ) -> None:
        self.files = files
        self.flags = flags
        self._redirect = redirect
        self._loaded: Kubeconfig | None = None

    def raw(self) -> Kubeconfig:
        """The files, without the flags."""
        if self._loaded is None:
            self._loaded = load(self.files)
        return self._loaded

    def namespace(self) -> str:
        """The namespace of the current context; "" if it has none."""
        return str(self._context(self.raw()).get("namespace") or "")

    def context_name(self) -> str:
        return str(self._context_name(self.raw()))

    def target(self) -> ServerTarget:
        target = self._target()
        return target.at(self._redirect(target.host)) if self._redirect else target

    def _target(self) -> ServerTarget:
        config = self.raw()
        context = self._context(config)
        user = self._named(config.users, "user", context.get("user"), "auth info")
        cluster = self._named(config.clusters, "cluster", context.get("cluster"), "cluster")
        cluster_fields, user_fields = self._cluster(cluster), self._user(user)
        problems = self._context_problems(config)
        problems += user_problems(self._name("user", context), user_fields)
        problems += cluster_problems(self._name("cluster", context), cluster_fields)
        if problems == [_EMPTY_CLUSTER]:
            return self._inside_cluster()
        if problems:
            raise PluginError(f"invalid configuration: {_joined(problems)}")
        return ServerTarget(
            _without_query(cluster_fields["server"]), cluster_fields, user_fields, self._timeout()
        )

    def _name(self, flag: str, context: Stanza) -> str:
        return self.flags.get(flag) or context.get(flag)

    def _context_name(self, config: Kubeconfig) -> str:
        return self.flags.get("context") or config.current_context

    def _context(self, config: Kubeconfig) -> Stanza:
        name = self._context_name(config)
        if name not in config.contexts and self.flags.get("context"):
            raise PluginError(f"context {quote(name)} does not exist")
        return config.contexts.get(name, Stanza({}))

    def _context_problems(self, config: Kubeconfig) -> list[str]:
        name = self._context_name(config)
        if name and name not in config.contexts:
            return [f"context was not found for specified context: {name}"]
        return []

    def _named(self, stanzas: dict[str, Stanza], flag: str, name: str, word: str) -> Stanza:
        chosen = self.flags.get(flag)
        if chosen and chosen not in stanzas:
            raise PluginError(f"{word} {quote(chosen)} does not exist")
        return stanzas.get(chosen or name, Stanza({}))

    def _cluster(self, cluster: Stanza) -> Object:
        """The cluster's fields with flags applied: a flag for the CA replaces all CA fields."""
        fields = dict(cluster.fields)
        given = {name: self.flags[name] for name in _CLUSTER_FLAGS if self.flags.get(name)}
        if self.flags.get("insecure-skip-tls-verify"):
            given["insecure-skip-tls-verify"] = True
        if "insecure-skip-tls-verify" in given or "certificate-authority" in given:
            for name in ("insecure-skip-tls-verify", "certificate-authority"):
                fields.pop(name, None)
            fields.pop("certificate-authority-data", None)
        if "server" in given:
            fields.pop("tls-server-name", None)
        return fields | given

    def _user(self, user: Stanza) -> Object:
        fields = dict(user.fields)
        given = {
            field: self.flags[flag] for flag, field in _USER_FLAGS.items() if self.flags.get(flag)
        }
        for name in ("client-certificate", "client-key"):
            if name in given:
                fields.pop(f"{name}-data", None)
        extra = self.flags.get("as-user-extra")
        if extra:
            given["as-user-extra"] = _extra(extra)
        return fields | given

    def _timeout(self) -> float | None:
        text = self.flags.get("request-timeout") or "0"
        if text.isdigit():
            return float(text) or None
        try:
            return parse_duration(text) or None
        except ValueError:
            raise PluginError(
                "Invalid timeout value. Timeout must be a single integer in seconds, or an "
                "integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)"
            ) from None

    def _inside_cluster(self) -> ServerTarget:
        """Use the pod's service account if nothing else is configured."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
        token = f"{_ACCOUNT}/token"
        if not host or not port or not os.path.isfile(token):
            raise PluginError(NOTHING_GIVEN)
        address = f"[{host}]" if ":" in host else host
        cluster = {"certificate-authority": f"{_ACCOUNT}/ca.crt"}
        return ServerTarget(
            f"https://{address}:{port}", cluster, {"tokenFile": token}, self._timeout()
        )


_EMPTY_CLUSTER = "cluster has no server defined"


def cluster_problems(name: str, fields: Object) -> list[str]:
    if not any(fields.values()):
        return [_EMPTY_CLUSTER]
    problems = []
    if not fields.get("server"):
        problems.append(
            f"no server found for cluster {quote(name)}"
            if name
            else "default cluster has no server defined"
        )
    file = fields.get("certificate-authority")
    if file and fields.get("certificate-authority-data"):
        problems.append(
            "certificate-authority-data and certificate-authority are both specified for "
            f"{name}. certificate-authority-data will override."
        )
    if file:
        problems += _unreadable("certificate-authority", file, name)
    return problems


def user_problems(name: str, fields: Object) -> list[str]:
    problems = _certificate_problems(name, fields) + _exec_problems(name, fields)
    methods = ["token"] if fields.get("token") else []
    if fields.get("username") or fields.get("password"):
        methods.append("basicAuth")
    if len(methods) > 1:
        problems.append(
            f"more than one authentication method found for {name}; "
            f"found {bracketed(methods)}, only one is allowed"
        )
    others = ("as-uid", "as-groups", "as-user-extra")
    if any(fields.get(other) for other in others) and not fields.get("as"):
        problems.append(
            f"requesting uid, groups or user-extra for {name} without impersonating a user"
        )
    return problems


def _certificate_problems(name: str, fields: Object) -> list[str]:
    certificate, key = fields.get("client-certificate"), fields.get("client-key")
    certificate_data, key_data = (
        fields.get("client-certificate-data"),
        fields.get("client-key-data"),
    )
    if not certificate and not certificate_data:
        return []
    problems = []
    if certificate and certificate_data:
        problems.append(
            f"client-cert-data and client-cert are both specified for {name}. "
            "client-cert-data will override."
        )
    if key and key_data:
        problems.append(
            f"client-key-data and client-key are both specified for {name}; "
            "client-key-data will override"
        )
    if not key and not key_data:
        problems.append(
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method."
        )
    if certificate:
        problems += _unreadable("client-cert", certificate, name)
    if key:
        problems += _unreadable("client-key", key, name)
    return problems


def _exec_problems(name: str, fields: Object) -> list[str]:
    command = fields.get("exec")
    if not command:
        return []
    problems = [
        f"{wanted} must be specified for {name} to use exec authentication plugin"
        for wanted in ("command", "apiVersion")
        if not command.get(wanted)
    ]
    mode = command.get("interactiveMode")
    if not mode and str(command.get("apiVersion", "")).endswith("/v1"):
        problems.append(
            f"interactiveMode must be specified for {name} to use exec authentication plugin"
        )
    elif mode not in (None, "", "Never", "IfAvailable", "Always"):
        problems.append(f"invalid interactiveMode for {name}: {quote(mode)}")
    return problems


def _unreadable(what: str, file: str, name: str) -> list[str]:
    try:
        with open(file, "rb"):
            return []
    except OSError as error:
        reason = f"open {file}: {(error.strerror or str(error)).lower()}"
        return [f"unable to read {what} {file} for {name} due to {reason}"]


def _joined(problems: list[str]) -> str:
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def _extra(pairs: list[str]) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        extra.setdefault(key, []).append(value)
    return extra


def _without_query(host: str) -> str:
    url = urlsplit(host)
    return urlunsplit((url.scheme, url.netloc, url.path, "", "")) if len(url.path) > 1 else host


def decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise PluginError(f"illegal base64 data in kubeconfig: {error}") from None
