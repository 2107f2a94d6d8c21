"""The life of `virtual-workspaces`: read the kubeconfig, listen, drain."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import signal
import sys
import time

from pykcp.aio.owner import TaskOwner
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.request_header import HeaderNames, RequestHeaders
from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.auth.certificates import ServingFiles, ensure_serving, serving_hosts
from pykcp.auth.files import CredentialError
from pykcp.auth.webhook_client import load_endpoint
from pykcp.observe import logging as logs
from pykcp.programs.virtual.proxy import VirtualWorkspaceProxy
from pykcp.programs.virtual.settings import VirtualWorkspacesSettings
from pykcp.server.health import Health
from pykcp.wire.listener import Listener, ListenError
from pykcp.wire.settings import TLSSettings, WireSettings

_log = logging.getLogger(__name__)
_DRAIN_SECONDS = 10.0


def run(settings: VirtualWorkspacesSettings) -> int:
    """Run until a signal; the exit code of the program."""
    logs.set_up(settings.verbosity, settings.logging_format)
    try:
        asyncio.run(_main(settings))
    except (CredentialError, ListenError) as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def _main(settings: VirtualWorkspacesSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    endpoint = load_endpoint(settings.kubeconfig, settings.context)
    health = Health()
    door = VirtualWorkspaceProxy(endpoint, _authentication(settings), health)
    files = _serving(settings)
    listener = Listener(
        door, WireSettings(), TLSSettings(str(files.certificate_file), str(files.key_file))
    )
    async with TaskOwner("virtual-workspaces") as owner:
        owner.start_restartable("passing-on", door.passing_on.run)
        owner.start_restartable("vouching", door.vouching.run)
        await listener.start(settings.bind_address, settings.secure_port)
        _log.info("serving on %s:%d", settings.bind_address, listener.port)
        await stopping.wait()
        health.is_draining = True
        await listener.drain(_DRAIN_SECONDS)


def _serving(settings: VirtualWorkspacesSettings) -> ServingFiles:
    if settings.tls_cert_file:
        certificate = pathlib.Path(settings.tls_cert_file)
        key = pathlib.Path(settings.tls_private_key_file)
        return ServingFiles(certificate, key, certificate.read_bytes())
    settings.cert_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ensure_serving(settings.cert_dir, serving_hosts("", settings.bind_address), time.time())


def _authentication(settings: VirtualWorkspacesSettings) -> Authentication:
    certificates = proxy = None
    if settings.client_ca_file:
        bundle = pathlib.Path(settings.client_ca_file).read_bytes()
        certificates = ClientCertificates(CertificateVerifier(bundle))
    if settings.requestheader_client_ca_file:
        bundle = pathlib.Path(settings.requestheader_client_ca_file).read_bytes()
        names = HeaderNames.parse(
            settings.requestheader_username_headers,
            settings.requestheader_uid_headers,
            settings.requestheader_group_headers,
            settings.requestheader_extra_headers_prefix,
        )
        verifier = CertificateVerifier(bundle, "request header CA")
        proxy = RequestHeaders(verifier, settings.requestheader_allowed_names, names)
    return Authentication(clock=time.time, certificates=certificates, proxy=proxy)
