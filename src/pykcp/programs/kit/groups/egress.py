"""Requests that the server sends for tenants: to webhooks, issuers, mounts, virtual resources."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.clients.destinations import BadEntry, parse_entry
from pykcp.programs.kit.checks import ca_bundle, key_pairs, positive
from pykcp.programs.kit.options import OptionGroup, option


def _destinations(flag: str, entries: tuple[str, ...]) -> Iterator[str]:
    for text in entries:
        try:
            parse_entry(text)
        except BadEntry as error:
            yield f"--{flag}: {error}"


class IssuerEgressOptions(OptionGroup):
    """For programs that call nothing for tenants but the issuers that they chose."""

    TITLE = "Requests sent for tenants"

    tenant_egress_allow: tuple[str, ...] = option(
        "The only destinations that may be called for tenants: networks, addresses, host names (*.example.com), each with or without a port. Empty: all but those that are denied.",
        (),
        check=_destinations,
    )
    tenant_egress_deny: tuple[str, ...] = option(
        "Destinations that must not be called for tenants, in addition to link-local addresses and this installation's own.",
        (),
        check=_destinations,
    )
    tenant_egress_connections: int = option(
        "Calls of webhooks, conversion webhooks and issuers for tenants in progress at a time. No tenant, user or destination gets more of them than are free.",
        512,
        check=positive,
    )


class EgressOptions(IssuerEgressOptions):
    tenant_egress_forwards: int = option(
        "The same for requests that are forwarded to mounts and virtual resources.",
        4096,
        check=positive,
    )
    mount_proxy_client_cert_file: str = option(
        "Client certificate (PEM) for requests to the servers behind mounted workspaces.", ""
    )
    mount_proxy_client_key_file: str = option("Key of --mount-proxy-client-cert-file.", "")
    mount_proxy_ca_file: str = option(
        "CA bundle (PEM) that certificates of servers behind mounted workspaces are verified with. Without it they are not verified, as in kcp.",
        "",
        check=ca_bundle,
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from key_pairs(
            "mount-proxy-client-cert-file",
            self.mount_proxy_client_cert_file,
            "mount-proxy-client-key-file",
            self.mount_proxy_client_key_file,
        )
