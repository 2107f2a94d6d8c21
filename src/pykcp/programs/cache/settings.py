"""The settings of a cache server that runs alone."""

from __future__ import annotations

import ipaddress
import pathlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheSettings:
    root_directory: pathlib.Path = pathlib.Path(".kcp-cache")
    """Where it keeps what shards publish, and a certificate if it has to make one."""
    bind_address: str = "0.0.0.0"  # noqa: S104  # kcp's default: all addresses
    secure_port: int = 6443
    """0 takes any free port."""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""
    """Whose certificates count. Without it nobody gets in."""
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    synthetic_delay: float = 0.0
    """Seconds that every request waits: for tests of what depends on a slow cache."""
    verbosity: int = 2
    logging_format: str = "text"
    shutdown_seconds: float = 5.0

    def problems(self) -> list[str]:
        """Everything that is wrong with these settings."""
        out = []
        if not 0 <= self.secure_port <= 65535:
            out.append(f"--secure-port {self.secure_port} is not a valid port")
        try:
            ipaddress.ip_address(self.bind_address)
        except ValueError:
            out.append(f"--bind-address {self.bind_address!r} is not an IP address")
        for flag in ("tls_cert_file", "tls_private_key_file", "client_ca_file"):
            path = getattr(self, flag)
            if path and not pathlib.Path(path).is_file():
                out.append(f"--{flag.replace('_', '-')}: no such file: {path}")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            out.append("--tls-cert-file and --tls-private-key-file must be given together")
        if self.logging_format not in ("text", "json"):
            out.append(f"--logging-format {self.logging_format!r} must be text or json")
        return out
