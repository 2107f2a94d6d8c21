"""`kcp doctor`: what may be wrong with an installation, and with this host."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.cli.terminal import GREEN, RED, paint

if TYPE_CHECKING:
    import pathlib

    from pykcp.clients.kubeconfig import KubeconfigServer
    from pykcp.programs.operator.host.installation import ConfiguredHost
    from pykcp.programs.operator.host.layout import HostFiles
    from pykcp.types import Object

_LEAST_BYTES = 256 << 20
_SECONDS = 5.0
_CLOCK_SECONDS = 60.0


class DoctorFinding(NamedTuple):
    check: str
    what: str
    problem: str = ""


def _doctor(given: Given) -> int:
    failed = 0
    for one in findings(given.root):
        failed += bool(one.problem)
        state = f"{paint('PROBLEM', RED)}: {one.problem}" if one.problem else paint("ok", GREEN)
        print(f"{one.check:<12} {one.what}: {state}")
    print(f"{failed} problems" if failed else "no problems")
    return 1 if failed else 0


def findings(root: pathlib.Path) -> Iterator[DoctorFinding]:
    """Each check of this host and its installation."""
    from pykcp.programs.kit.errors import USER_ERRORS
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.layout import HostChoices, HostFiles

    files = HostFiles(root)
    yield _disk(root)
    try:
        choices = files.choices() or HostChoices()
        configured = Installation(files, choices).configure(time.time(), saves=False)
    except USER_ERRORS as error:
        text = " ".join(str(error).split())
        yield DoctorFinding("clock" if "clock" in text else "manifests", str(root), text)
        return
    yield DoctorFinding("clock", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    yield DoctorFinding(
        "manifests", choices.manifests or "imported", "; ".join(configured.problems)
    )
    yield from _chains(files)
    yield from _names(configured)
    yield from _ports(root, configured)
    yield from _identities(root)
    yield from _registered(root)


def _disk(root: pathlib.Path) -> DoctorFinding:
    free = shutil.disk_usage(root).free
    text = f"only {free >> 20} MiB are free" if free < _LEAST_BYTES else ""
    return DoctorFinding("disk", f"{root}, {free >> 30} GiB free", text)


def _chains(files: HostFiles) -> Iterator[DoctorFinding]:
    from pykcp.programs.operator.host.certificates import host_certificates

    for one in host_certificates(files, datetime.now(UTC)):
        yield DoctorFinding("certificate", one.name, one.problem)


def _names(configured: ConfiguredHost) -> Iterator[DoctorFinding]:
    """Every host name in a URL of the installation."""
    hosts = set()
    for obj in configured.manifests.objects:
        external = obj["spec"].get("external") or {}
        hosts |= {external.get("hostname"), external.get("privateHostname")}
        hosts.add(urlsplit(obj["spec"].get("shardBaseURL") or "").hostname)
    for name in sorted(one for one in hosts if one):
        try:
            found = {entry[4][0] for entry in socket.getaddrinfo(name, None)}
        except OSError as error:
            yield DoctorFinding("DNS", name, f"cannot be resolved: {error.strerror or error}")
        else:
            yield DoctorFinding("DNS", f"{name} is {', '.join(sorted(map(str, found)))}")


def _ports(root: pathlib.Path, configured: ConfiguredHost) -> Iterator[DoctorFinding]:
    from pykcp.cli.operate.status import read_status
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.identity import identify
    from pykcp.programs.operator.drivers.process.ports import is_free

    try:
        status, _ = read_status(root)
    except SettingsError:
        status = {"workloads": []}
    running = {
        one["name"]
        for one in status["workloads"]
        if any(replica["pid"] and identify(replica["pid"]) for replica in one["replicas"])
    }
    for one in configured.local:
        where = f"{one.listen.host}:{one.listen.port} of {one.name}"
        try:
            free = is_free(one.listen.host, one.listen.port)
        except SettingsError as error:
            yield DoctorFinding("port", where, str(error))
            continue
        if one.name in running:
            yield DoctorFinding("port", where, "the program does not listen on it" if free else "")
        else:
            yield DoctorFinding("port", where, "" if free else "in use by another program")


# -- connections ---------------------------------------------------------------------------------


def _identities(root: pathlib.Path) -> Iterator[DoctorFinding]:
    """Every URL with the identity that the program or user has there."""
    from pykcp.clients.credential_files import CredentialError
    from pykcp.clients.kubeconfig import load_endpoint

    paths = sorted(root.glob("*/*/files/**/kubeconfig")) + sorted(root.glob("kubeconfigs/*"))
    for path in paths:
        if not path.is_file() or any(part.startswith("..") for part in path.parts):
            continue
        name = path.stem if path.suffix else f"{path.relative_to(root).parts[1]} {path.parent.name}"
        try:
            endpoint = load_endpoint(str(path))
        except CredentialError as error:
            yield DoctorFinding("connection", name, str(error))
            continue
        yield DoctorFinding("connection", f"{name} to {endpoint.url}", _dial(endpoint))


def _registered(root: pathlib.Path) -> Iterator[DoctorFinding]:
    """The three URLs of every shard that is registered in the root workspace."""
    from dataclasses import replace

    from pykcp.clients.kubeconfig import load_endpoint

    path = root / "admin.kubeconfig"
    if not path.exists():
        return
    endpoint = load_endpoint(str(path))
    base = f"{urlsplit(endpoint.url).scheme}://{urlsplit(endpoint.url).netloc}"
    target = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"
    try:
        status, _, body = _get(replace(endpoint, url=base), target)
    except OSError as error:
        yield DoctorFinding("shards", base, _text(error))
        return
    if status != 200:
        yield DoctorFinding("shards", base, f"listing shards answered {status}")
        return
    import json

    items: list[Object] = json.loads(body)["items"]
    for shard in items:
        for field in ("baseURL", "externalURL", "virtualWorkspaceURL"):
            url = str(shard["spec"].get(field) or "")
            what = f"{field} of {shard['metadata']['name']}, {url}"
            yield DoctorFinding(
                "shards", what, _dial(replace(endpoint, url=url)) if url else "is not set"
            )


def _dial(endpoint: KubeconfigServer) -> str:
    """What is wrong with a connection; "" if the server accepts the identity."""
    from pykcp.clients.credential_files import CredentialError

    try:
        status, date, _ = _get(endpoint, "/version")
    except OSError as error:
        return _text(error)
    except CredentialError as error:
        return str(error)
    if date and abs((parsedate_to_datetime(date).timestamp()) - time.time()) > _CLOCK_SECONDS:
        return f"its clock differs: it says {date}"
    if status == 401:
        return "the server does not accept the client certificate (401)"
    return f"answered {status}" if status >= 500 else ""


def _get(endpoint: KubeconfigServer, target: str) -> tuple[int, str, bytes]:
    from pykcp.clients.kubeconfig import make_context

    url = urlsplit(endpoint.url)
    context = make_context(endpoint)
    connection = http.client.HTTPSConnection(
        url.hostname or "", url.port or 443, timeout=_SECONDS, context=context
    )
    try:
        connection.request("GET", target)
        with connection.getresponse() as reply:
            return reply.status, reply.getheader("Date") or "", reply.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def _text(error: OSError) -> str:
    from pykcp.clients.errors import tls_problem

    if isinstance(error, ssl.SSLError):
        return tls_problem(error)
    return error.strerror or str(error)


DOCTOR = HostCommand(
    "Check this host and its installation: disk, clock, manifests, certificates and their chains, DNS,\n"
    "ports, every URL with every identity, the URLs of all shards.\n\n"
    "Usage:\n  kcp doctor [flags]\n\n"
    "The exit code is 0 if there is no problem.\n",
    _doctor,
    most=0,
)
