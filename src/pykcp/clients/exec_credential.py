"""Credential plugins (`exec` in a kubeconfig's user)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from pykcp.clients.credential_files import CredentialError

Object = dict[str, Any]
_HINT = (
    "\n\nIt looks like you are trying to use a client-go credential plugin that is not installed."
    "\n\nTo learn more about this feature, consult the documentation available at:\n      "
    "https://kubernetes.io/docs/reference/access-authn-authz/authentication/"
    "#client-go-credential-plugins"
)


def credentials(command: Object, server: str, cluster: Object) -> Object:
    """Run the credential plugin; returns its token or certificate as fields of a kubeconfig's user,
    and when they expire, if it says so. Raises CredentialError.
    """
    status = _checked(_answer(command, server, cluster), command)
    fields: Object = {}
    if status.get("token"):
        fields["token"] = status["token"]
    if status.get("clientCertificateData"):
        fields["certificate"] = status["clientCertificateData"]
        fields["key"] = status["clientKeyData"]
    if status.get("expirationTimestamp"):
        fields["expiration"] = status["expirationTimestamp"]
    return fields


def _answer(command: Object, server: str, cluster: Object) -> Object:
    interactive = _is_interactive(command)
    try:
        done = subprocess.run(
            [command["command"], *(command.get("args") or [])],
            env=_environment(command, server, cluster, is_interactive=interactive),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError:
        hint = command.get("installHint")
        raise CredentialError(
            f"getting credentials: exec: executable {command['command']} not found{_HINT}"
            + (f"\n\n{hint}" if hint else "")
        ) from None
    except OSError as error:
        raise CredentialError(f"getting credentials: exec: {error}") from None
    if done.returncode != 0:
        raise CredentialError(
            f"getting credentials: exec: executable {command['command']} "
            f"failed with exit code {done.returncode}"
        )
    try:
        answer: Object = json.loads(done.stdout)
    except ValueError as error:
        raise CredentialError(f"getting credentials: decoding stdout: {error}") from None
    return answer


def _is_interactive(command: Object) -> bool:
    mode = command.get("interactiveMode") or "IfAvailable"
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not is_terminal:
        raise CredentialError(
            "getting credentials: exec plugin cannot support interactive mode: "
            "standard input is not a terminal"
        )
    return mode != "Never" and is_terminal


def _environment(
    command: Object, server: str, cluster: Object, *, is_interactive: bool
) -> dict[str, str]:
    spec: Object = {"interactive": is_interactive}
    if command.get("provideClusterInfo"):
        spec["cluster"] = _cluster_information(server, cluster)
    information = {
        "kind": "ExecCredential",
        "apiVersion": command.get("apiVersion", ""),
        "spec": spec,
    }
    own = {entry["name"]: str(entry.get("value", "")) for entry in command.get("env") or []}
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(information)}


def _cluster_information(server: str, cluster: Object) -> Object:
    names = {
        "tls-server-name": "tls-server-name",
        "insecure-skip-tls-verify": "insecure-skip-tls-verify",
        "certificate-authority-data": "certificate-authority-data",
        "proxy-url": "proxy-url",
    }
    given = {name: cluster[field] for field, name in names.items() if cluster.get(field)}
    return {"server": server, **given, "config": None}


def _checked(answer: Object, command: Object) -> Object:
    wanted, got = command.get("apiVersion"), answer.get("apiVersion")
    if got != wanted:
        raise CredentialError(
            f"getting credentials: exec plugin is configured to use API version {wanted}, "
            f"plugin returned version {got}"
        )
    status: Object = answer.get("status") or {}
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not answer.get("status"):
        raise CredentialError("getting credentials: exec plugin didn't return a status field")
    if not (status.get("token") or certificate or key):
        raise CredentialError(
            "getting credentials: exec plugin didn't return a token or cert/key pair"
        )
    if bool(certificate) != bool(key):
        raise CredentialError(
            "getting credentials: exec plugin returned only certificate or key, not both"
        )
    return status
