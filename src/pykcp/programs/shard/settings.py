"""The settings of a shard: documented, checked all at once, then frozen."""

from __future__ import annotations

import ipaddress
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pykcp.auth.settings import SignInSettings
from pykcp.clients.destinations import BadEntry, parse_entry
from pykcp.observe.audit.settings import AuditSettings
from pykcp.wire.settings import WireSettings
from pykcp.workers.pool import WorkerSettings


class SettingsError(Exception):
    """Settings that cannot be used; one problem per line."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    root_directory: pathlib.Path = pathlib.Path(".kcp")
    """Where the shard keeps its state, keys and kubeconfig."""
    bind_address: str = "0.0.0.0"  # noqa: S104  # kcp's default: all addresses
    secure_port: int = 6443
    """0 together with `bind_free_port` takes any free port."""
    bind_free_port: bool = False
    external_hostname: str = ""
    shard_name: str = "root"
    shard_base_url: str = ""
    shard_external_url: str = ""
    shard_virtual_workspace_url: str = ""
    shard_virtual_workspace_ca_file: str = ""
    shard_client_cert_file: str = ""
    shard_client_key_file: str = ""
    run_virtual_workspaces: bool = True
    """Otherwise requests under /services/ go to the URL above, if there is one."""
    mount_proxy_client_cert_file: str = ""
    mount_proxy_client_key_file: str = ""
    mount_proxy_ca_file: str = ""
    tenant_egress_allow: tuple[str, ...] = ()
    """What may be called for tenants; see docs/operate/limits.md for this and the following."""
    tenant_egress_deny: tuple[str, ...] = ()
    tenant_egress_connections: int = 512
    tenant_egress_forwards: int = 4096
    root_identities_file: str = ""
    """Keys of the exports of root that are given rather than made."""
    home_workspaces: bool = True
    home_creator_groups: tuple[str, ...] = ("system:authenticated",)
    client_ca_file: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = "VersionTLS12"
    token_auth_file: str = ""
    anonymous_auth: bool = True
    sign_in: SignInSettings = field(default_factory=SignInSettings)
    """OIDC, webhooks for tokens and permissions, bootstrap tokens."""
    api_audiences: tuple[str, ...] = ()
    service_account_key_files: tuple[str, ...] = ()
    service_account_signing_key_file: str = ""
    service_account_issuer: str = "https://kcp.default.svc"
    service_account_private_key_file: str = ""
    """Signs the tokens in secrets; the signing key if not given."""
    root_ca_file: str = ""
    """Published in kube-root-ca.crt and token secrets; the serving CA if not given."""
    service_account_lookup: bool = True
    service_account_max_expiration: float = 0.0
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("X-Remote-User",)
    requestheader_group_headers: tuple[str, ...] = ("X-Remote-Group",)
    requestheader_uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("X-Remote-Extra-",)
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_order: tuple[str, ...] = (
        "AlwaysAllowGroups",
        "AlwaysAllowPaths",
        "RBAC",
        "Webhook",
    )
    batteries: frozenset[str] = frozenset(("workspace-types", "admin"))
    kubeconfig_path: str = "admin.kubeconfig"
    admin_token_path: str = ".admin-token-store"  # noqa: S105  # a file's name
    event_ttl: float = 3600.0
    run_controllers: bool = True
    workspace_undelete_window: float = 0.0
    """Seconds that deleted workspaces are kept; 0: they are gone at once."""
    store_size_limit: int = 8 << 30
    """Bytes that the store may hold; 0: any amount."""
    tenant_object_limits: bool = False
    """Whether users may set the object limit of their logical cluster by its annotation."""
    total_object_limit: int = 0
    """Objects that a logical cluster may hold if it says nothing else; 0 or less: any number."""
    wire: WireSettings = field(default_factory=WireSettings)
    """Limits of connections; see docs/operate/limits.md."""
    fairness: bool = True
    """Whether requests have to share; see docs/operate/limits.md for this and the following."""
    fairness_seats: int = 256
    fairness_read_seats: int = 128
    fairness_long_seats: int = 8
    fairness_sign_in_seats: int = 64
    fairness_seat_timeout: float = 10.0
    fairness_queue_length: int = 256
    fairness_queue_bytes: int = 128 << 20
    fairness_queue_wait: float = 15.0
    fairness_watches_per_user: int = 4000
    fairness_watches_per_cluster: int = 8000
    fairness_cost_per_user: float = 0.25
    fairness_cost_per_cluster: float = 0.5
    fairness_cost_per_address: float = 0.1
    fairness_cost_burst: float = 0.1
    stall_log_threshold: float = 0.1
    """Seconds by which the event loop may be late before that is logged; 0: never."""
    workers: WorkerSettings = field(default_factory=WorkerSettings)
    etcd_servers: tuple[str, ...] = ()
    etcd_prefix: str = "/registry"
    etcd_certfile: str = ""
    etcd_keyfile: str = ""
    etcd_cafile: str = ""
    audit: AuditSettings = field(default_factory=AuditSettings)
    encryption_provider_config: str = ""
    """EncryptionConfiguration: which resources are encrypted at rest, and how."""
    encryption_provider_config_reload: bool = False
    """Take changes of that file over without a restart."""
    shutdown_seconds: float = 10.0
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    verbosity: int = 2
    logging_format: str = "text"

    @property
    def gates(self) -> frozenset[str]:
        """The features that are on."""
        return frozenset(name for name, is_on in self.feature_gates.items() if is_on)

    def problems(self) -> list[str]:
        """Everything that is wrong with these settings, each with what to do."""
        out = []
        if not 0 <= self.secure_port <= 65535 or (
            self.secure_port == 0 and not self.bind_free_port
        ):
            out.append(
                f"--secure-port {self.secure_port} is not a valid port, must be between 1 and 65535"
            )
        try:
            ipaddress.ip_address(self.bind_address)
        except ValueError:
            out.append(f"--bind-address {self.bind_address!r} is not an IP address")
        for flag in _FILES:
            value = getattr(self, flag)
            paths = (value,) if isinstance(value, str) else value
            name = flag.removesuffix("s").replace("_", "-")
            out += [
                f"--{name}: no such file: {path}"
                for path in paths
                if path and not pathlib.Path(path).is_file()
            ]
        out += self.audit.problems()
        out += [
            f"--{flag}: no such file: {path}"
            for flag, path in (
                ("audit-policy-file", self.audit.policy_file),
                ("audit-webhook-config-file", self.audit.webhook.config_file),
            )
            if path and not pathlib.Path(path).is_file()
        ]
        out += self.sign_in.problems()
        out += self.wire.problems()
        out += _pair_problem(self, "tls_cert_file", "tls_private_key_file")
        out += _pair_problem(self, "etcd_certfile", "etcd_keyfile")
        for flag in ("shard_base_url", "shard_external_url", "shard_virtual_workspace_url"):
            url = getattr(self, flag)
            if url and urlsplit(url).scheme != "https":
                out.append(f"--{flag.replace('_', '-')} {url!r} must be an https URL")
        if self.logging_format not in ("text", "json"):
            out.append(f"--logging-format {self.logging_format!r} must be text or json")
        for flag in _POSITIVE:
            if getattr(self, flag) <= 0:
                out.append(f"--{flag.replace('_', '-')} must be greater than 0")
        if self.stall_log_threshold < 0:
            out.append("--stall-log-threshold must not be negative")
        out += _egress_problems("tenant-egress-allow", self.tenant_egress_allow)
        out += _egress_problems("tenant-egress-deny", self.tenant_egress_deny)
        if self.workspace_undelete_window < 0:
            out.append("--workspace-undelete-window must not be negative")
        unknown = self.batteries - _BATTERIES
        if unknown:
            out.append(
                f"--batteries-included: unknown batteries {sorted(unknown)}, known are {sorted(_BATTERIES)}"
            )
        return out

    def checked(self) -> ShardSettings:
        problems = self.problems()
        if problems:
            raise SettingsError("\n".join(problems))
        return self


_FILES = (
    "client_ca_file",
    "tls_cert_file",
    "tls_private_key_file",
    "token_auth_file",
    "service_account_key_files",
    "service_account_signing_key_file",
    "service_account_private_key_file",
    "root_ca_file",
    "root_identities_file",
    "requestheader_client_ca_file",
    "etcd_certfile",
    "etcd_keyfile",
    "etcd_cafile",
    "shard_virtual_workspace_ca_file",
    "mount_proxy_ca_file",
    "encryption_provider_config",
)
_POSITIVE = (
    "fairness_seats",
    "fairness_read_seats",
    "fairness_long_seats",
    "fairness_sign_in_seats",
    "fairness_seat_timeout",
    "fairness_queue_length",
    "fairness_queue_bytes",
    "fairness_queue_wait",
    "fairness_watches_per_user",
    "tenant_egress_connections",
    "tenant_egress_forwards",
    "fairness_watches_per_cluster",
    "fairness_cost_per_user",
    "fairness_cost_per_cluster",
    "fairness_cost_per_address",
    "fairness_cost_burst",
)
_BATTERIES = frozenset(("workspace-types", "admin", "user", "metrics-viewer"))


def _egress_problems(flag: str, entries: tuple[str, ...]) -> list[str]:
    problems = []
    for text in entries:
        try:
            parse_entry(text)
        except BadEntry as error:
            problems.append(f"--{flag}: {error}")
    return problems


def _pair_problem(settings: Any, first: str, second: str) -> list[str]:
    if bool(getattr(settings, first)) != bool(getattr(settings, second)):
        names = f"--{first.replace('_', '-')} and --{second.replace('_', '-')}"
        return [f"{names} must be given together"]
    return []
