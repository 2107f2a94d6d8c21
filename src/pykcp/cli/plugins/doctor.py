"""`kubectl kcp doctor`: what is wrong with the connection and the current workspace, and how to mend it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Unreachable
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.terminal import GREEN, RED, YELLOW, paint
from pykcp.machinery.conditions import status_of

Object = dict[str, Any]
OK, NOTE, WRONG = "ok", "note", "wrong"
_COLOURS = {OK: GREEN, NOTE: YELLOW, WRONG: RED}
_SOON = 14 * 24 * 3600
_SHOWN = 10
"""How many objects of a kind are named."""
_APIS = "/apis/apis.kcp.io/v1alpha2"


class CheckResult(NamedTuple):
    level: str
    check: str
    text: str
    remedy: str = ""


def doctor(invocation: CommandInvocation) -> int:
    """Print a line for each check; 1 if anything is wrong."""
    session = Session(invocation)
    is_wrong = False
    for found in examine(session):
        is_wrong |= found.level == WRONG
        print(f"{paint(f'{found.level:<5}', _COLOURS[found.level])} {found.check:<12} {found.text}")
        if found.remedy:
            print(f"{'':18} {found.remedy}")
    return int(is_wrong)


def examine(session: Session) -> Iterator[CheckResult]:
    """All checks; those that need what an earlier one found missing are left out."""
    try:
        target = session.target()
    except PluginError as error:
        yield CheckResult(WRONG, "kubeconfig", str(error), "set KUBECONFIG, or use --kubeconfig")
        return
    yield CheckResult(
        OK, "kubeconfig", f"context {session.config.context_name() or '-'}, {target.host}"
    )
    client = session.client
    version = ""
    try:
        version = client.get(f"{client.path_prefix}/version").get("gitVersion", "")
    except Unreachable as error:
        yield CheckResult(WRONG, "server", str(error), _reach(str(error)))
        return
    except ServerError:
        pass  # it answers; whether the user may do anything is asked below
    except PluginError as error:
        yield CheckResult(WRONG, "server", str(error))
        return
    yield CheckResult(OK, "server", f"answers{f', version {version}' if version else ''}")
    yield from _certificate(client, time.time())
    yield from _readiness(client)
    yield from _user(client)
    yield from _workspace(session)


def _reach(text: str) -> str:
    if "unknown authority" in text:
        return "the kubeconfig has the CA of another installation: take the file of this one"
    if "expired" in text:
        return "renew the certificate of the server"
    if "refused" in text:
        return "start the server, or correct the port of the kubeconfig"
    return "check the address of the kubeconfig, and the network"


def _certificate(client: RestClient, now: float) -> Iterator[CheckResult]:
    end = client.certificate_end()
    if not end:
        return
    left = ssl.cert_time_to_seconds(end) - now
    day = time.strftime("%Y-%m-%d", time.gmtime(now + left))
    if left < _SOON:
        remedy = "renew the certificate of the server"
        yield CheckResult(NOTE, "certificate", f"valid until {day} only", remedy)
    else:
        yield CheckResult(OK, "certificate", f"valid until {day}")


def _readiness(client: RestClient) -> Iterator[CheckResult]:
    status, text = client.text(f"{client.path_prefix}/readyz?verbose")
    if status == 200:
        yield CheckResult(OK, "readiness", "all checks of the server pass")
    elif status < 500:
        return  # a proxy in between does not pass it on, or the user may not see it
    else:
        failed = [line[3:].split()[0] for line in text.splitlines() if line.startswith("[-]")]
        names = ", ".join(failed) or text.strip()[:200]
        yield CheckResult(WRONG, "readiness", f"the server is not ready: {names}")


def _user(client: RestClient) -> Iterator[CheckResult]:
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = f"{client.path_prefix}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        found = client.request("POST", path, kind)["status"]["userInfo"]
    except ServerError as error:
        if error.code == 401:
            remedy = "sign in again; the token or certificate is not accepted"
            yield CheckResult(WRONG, "user", str(error), remedy)
        else:
            remedy = "ask an administrator for access, or see `kubectl ws why access /`"
            yield CheckResult(WRONG, "user", str(error), remedy)
        return
    groups = ", ".join(found.get("groups") or ())
    yield CheckResult(OK, "user", f"{found.get('username', '')} in {groups}")


def _workspace(session: Session) -> Iterator[CheckResult]:
    try:
        path = session.current()
    except PluginError as error:
        yield CheckResult(NOTE, "workspace", str(error), "enter one: kubectl ws :root")
        return
    client = session.client
    address = f"{client.path_prefix}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    try:
        cluster = client.get(address)
    except ServerError as error:
        remedy = "ask an administrator for access, or see `kubectl ws why access /`"
        yield CheckResult(WRONG if error.is_forbidden else NOTE, "workspace", str(error), remedy)
        if error.is_forbidden:
            return
    else:
        phase = (cluster.get("status") or {}).get("phase") or "Unknown"
        level = OK if phase == "Ready" else WRONG
        waiting = ", ".join((cluster.get("status") or {}).get("initializers") or ())
        remedy = f"it waits for the initializers {waiting}" if waiting else ""
        yield CheckResult(level, "workspace", f"{path} is {phase}", remedy)
    for check in _KINDS:
        yield from _of_kind(client, check)


class KindCheck(NamedTuple):
    """What may be wrong with the objects of one kind."""

    title: str
    path: str
    problem: Callable[[Object], tuple[str, str, str] | None]
    """A level, what is wrong, and a remedy; None if nothing is."""


def _of_kind(client: RestClient, check: KindCheck) -> Iterator[CheckResult]:
    try:
        items = client.get(f"{client.path_prefix}{check.path}")["items"]
    except ServerError:
        return  # the workspace does not have the kind, or the user may not list it
    found = [(item["metadata"]["name"], check.problem(item)) for item in items]
    problems = [(name, problem) for name, problem in found if problem is not None]
    if items and not problems:
        yield CheckResult(OK, check.title, f"{len(items)} in order")
    for name, (level, text, remedy) in problems[:_SHOWN]:
        yield CheckResult(level, check.title, f"{name}: {text}", remedy)
    if len(problems) > _SHOWN:
        yield CheckResult(WRONG, check.title, f"and {len(problems) - _SHOWN} more")


def _unmet(obj: Object, *ignored: str) -> str:
    """The first condition that is False, with its reason."""
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("status") == "False" and one.get("type") not in ("Ready", *ignored):
            why = one.get("message") or one.get("reason") or ""
            return f"{one['type']} is False: {why}"
    return ""


def _binding(obj: Object) -> tuple[str, str, str] | None:
    name, text = obj["metadata"]["name"], _unmet(obj)
    if (obj.get("status") or {}).get("phase") != "Bound" or text:
        if "not found" in text.lower():
            remedy = f"create the export, or delete the binding: kubectl delete apibinding {name}"
        else:
            remedy = f"see kubectl get apibinding {name} -o yaml"
        return WRONG, text or "is not bound yet", remedy
    claims = (obj.get("spec") or {}).get("permissionClaims") or ()
    asked = (obj.get("status") or {}).get("exportPermissionClaims") or ()
    decided = {(c.get("group"), c.get("resource")) for c in claims}
    open_claims = [
        c["resource"] for c in asked if (c.get("group"), c.get("resource")) not in decided
    ]
    if open_claims:
        remedy = f"kubectl kcp claims accept {name}, or reject"
        return NOTE, f"claims to be decided: {', '.join(open_claims)}", remedy
    return None


def _export(obj: Object) -> tuple[str, str, str] | None:
    text = _unmet(obj)
    if not text:
        return None
    return WRONG, text, f"see kubectl get apiexport {obj['metadata']['name']} -o yaml"


def _definition(obj: Object) -> tuple[str, str, str] | None:
    if status_of(obj, "Established") == "True":
        return None
    remedy = f"see kubectl get crd {obj['metadata']['name']} -o yaml"
    return WRONG, _unmet(obj) or "is not served", remedy


def _child(obj: Object) -> tuple[str, str, str] | None:
    phase = (obj.get("status") or {}).get("phase") or "Unknown"
    if phase == "Ready":
        return None
    name, waiting = obj["metadata"]["name"], (obj.get("status") or {}).get("initializers") or ()
    text = f"is {phase}" + (f", waits for {', '.join(waiting)}" if waiting else "")
    return NOTE, text, f"see kubectl get workspace {name} -o yaml"


_KINDS = (
    KindCheck("bindings", f"{_APIS}/apibindings", _binding),
    KindCheck("exports", f"{_APIS}/apiexports", _export),
    KindCheck(
        "definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition
    ),
    KindCheck("workspaces", "/apis/tenancy.kcp.io/v1alpha1/workspaces", _child),
)
