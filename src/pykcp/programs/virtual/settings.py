"""What `virtual-workspaces workspaces` can be told."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VirtualWorkspacesSettings:
    kubeconfig: str
    """How the shard is reached, as system:masters."""
    context: str = ""
    bind_address: str = "0.0.0.0"  # noqa: S104  # as kcp does
    secure_port: int = 6444
    cert_dir: pathlib.Path = pathlib.Path(".kcp")
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("X-Remote-User",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("X-Remote-Group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("X-Remote-Extra-",)
    verbosity: int = 2
    logging_format: str = "text"

    def problems(self) -> list[str]:
        out = []
        if not self.kubeconfig:
            out.append("--kubeconfig is required for this command")
        if not 0 <= self.secure_port <= 65535:
            out.append(f"--secure-port {self.secure_port} must be between 0 and 65535")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            out.append("--tls-cert-file and --tls-private-key-file must be given together")
        return out
