"""One probe: a GET over HTTPS on a new connection, as that of a new client."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import NamedTuple

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.programs.operator.compiled import Listen, Probe
from pykcp.wire.tls_trust import verifying_context

_MOST = 1 << 16
_SHOWN = 300


class ProbeOutcome(NamedTuple):
    problem: str
    """"" if it succeeded."""
    is_certificate: bool = False
    """The process answers, with a certificate that is not accepted: a restart would not help."""


async def probe(listen: Listen, host: str, port: int, what: Probe) -> ProbeOutcome:
    """Ask a process of the workload that listens there."""
    # As a kubelet does, a server whose authority is unknown is asked without verifying it:
    # a probe sends no credentials, and its answer says only how the server fares.
    trust = (
        Trust(partial(_chain_only, listen.authority)) if listen.authority else Trust.unverified()
    )
    server = Server("https", host, port, trust, listen.server_name)
    return await probe_server(server, what, listen.authority)


async def probe_server(server: Server, what: Probe, authority: str = "") -> ProbeOutcome:
    """`authority`: the file that its trust is read from."""
    try:
        async with asyncio.timeout(what.timeout), HttpClient(server) as client:
            response = await client.request("GET", what.path)
            body = await response.read(_MOST)
    except TimeoutError:
        return ProbeOutcome(f"{what.path} did not answer within {what.timeout:g} s")
    except SendFailed as error:
        return ProbeOutcome(f"{what.path}: {error}", is_certificate_error(error))
    except OSError as error:  # the file of the authority cannot be read
        return ProbeOutcome(f"{authority}: {error.strerror or error}")
    if response.status == 200:
        return ProbeOutcome("")
    return ProbeOutcome(f"{what.path} answered {response.status}: {_failed_checks(body)}")


def _chain_only(authority: str) -> ssl.SSLContext:
    """The certificate must be valid; its names are those for users, not for this host."""
    context = verifying_context(cafile=authority)
    context.check_hostname = False
    return context


def is_certificate_error(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _failed_checks(body: bytes) -> str:
    """The lines of a health page that name failed checks."""
    lines = [line.strip() for line in body.decode(errors="replace").splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith("[-]")] or lines[-1:]
    return "; ".join(failed)[:_SHOWN]
