"""Flags that follow from parts of a spec: authentication, authorization, audit, etcd, logs.

Flags come from tables of field and flag; a test parses them with the settings of the programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pykcp.programs.operator.compiled import CONFIG_MAP
from pykcp.programs.operator.configuration.files import WorkloadFiles
from pykcp.programs.operator.configuration.world import at
from pykcp.programs.operator.names import PROXY_USER, ROOT_PROXY_USER
from pykcp.types import Object

_OIDC = {
    "issuerURL": "oidc-issuer-url",
    "clientID": "oidc-client-id",
    "usernameClaim": "oidc-username-claim",
    "usernamePrefix": "oidc-username-prefix",
    "groupsClaim": "oidc-groups-claim",
    "groupsPrefix": "oidc-groups-prefix",
}
_TOKEN_WEBHOOK = {
    "cacheAuthenticationTTL": "authentication-token-webhook-cache-ttl",
    "version": "authentication-token-webhook-version",
}
_AUTHORIZATION_WEBHOOK = {
    "cacheAuthorizedTTL": "authorization-webhook-cache-authorized-ttl",
    "cacheUnauthorizedTTL": "authorization-webhook-cache-unauthorized-ttl",
    "version": "authorization-webhook-version",
}
_AUDIT_LOG = {
    "path": "audit-log-path",
    "format": "audit-log-format",
    "maxAge": "audit-log-maxage",
    "maxBackups": "audit-log-maxbackup",
    "maxSize": "audit-log-maxsize",
}
_AUDIT_WEBHOOK = {
    "mode": "audit-webhook-mode",
    "batchBufferSize": "audit-webhook-batch-buffer-size",
    "batchMaxSize": "audit-webhook-batch-max-size",
    "batchMaxWait": "audit-webhook-batch-max-wait",
    "batchThrottleBurst": "audit-webhook-batch-throttle-burst",
    "batchThrottleEnable": "audit-webhook-batch-throttle-enable",
    "batchThrottleQPS": "audit-webhook-batch-throttle-qps",
    "initialBackoff": "audit-webhook-initial-backoff",
    "truncateEnabled": "audit-webhook-truncate-enabled",
    "truncateMaxBatchSize": "audit-webhook-truncate-max-batch-size",
    "truncateMaxEventSize": "audit-webhook-truncate-max-event-size",
    "version": "audit-webhook-version",
}
REQUEST_HEADERS = (
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
)
TRUSTED_PROXIES = f"--requestheader-allowed-names={PROXY_USER},{ROOT_PROXY_USER}"


def flags(table: Mapping[str, str], given: Object) -> Iterator[str]:
    """A flag for each field that is set."""
    for field, flag in table.items():
        value = given.get(field)
        if value is not None and value != "":
            yield f"--{flag}={_text(value)}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def verbosity(spec: Object) -> list[str]:
    level = (spec.get("logging") or {}).get("level") or 0
    return [f"-v={level}"] if level else []


def etcd(spec: Object, files: WorkloadFiles, directory: str) -> Iterator[str]:
    given = spec.get("etcd")
    if not given:
        return
    yield f"--etcd-servers={','.join(given['endpoints'])}"
    if given.get("prefix"):
        yield f"--etcd-prefix={given['prefix']}"
    if given.get("tlsConfig"):
        secret = given["tlsConfig"]["secretRef"]["name"]
        for key, flag in (
            ("tls.crt", "etcd-certfile"),
            ("tls.key", "etcd-keyfile"),
            ("ca.crt", "etcd-cafile"),
        ):
            path = files.copy(
                f"{directory}/{key}", secret, key, reloads=False, purpose="etcd.tlsConfig"
            )
            yield f"--{flag}={path}"


def authentication(obj: Object, files: WorkloadFiles) -> Iterator[str]:
    """Tokens: OpenID Connect, webhooks, files; not those of service accounts."""
    oidc = at(obj, "auth.oidc")
    if oidc:
        yield from flags(_OIDC, oidc)
        if oidc.get("caFileRef"):
            ref = oidc["caFileRef"]
            # An empty key would make the path that of a directory.
            key = ref.get("key") or "ca.crt"
            where = f"/etc/kcp/tls/oidc/{key}"
            path = files.copy(where, ref["name"], key, reloads=False, purpose="auth.oidc.caFileRef")
            yield f"--oidc-ca-file={path}"
    webhook = at(obj, "auth.webhook")
    if webhook:
        path = files.copy(
            "/etc/kcp/authentication/webhook/kubeconfig",
            webhook["configSecretName"],
            "kubeconfig",
            reloads=False,
            purpose="auth.webhook",
        )
        yield f"--authentication-token-webhook-config-file={path}"
        yield from flags(_TOKEN_WEBHOOK, webhook)
    tokens = at(obj, "auth.tokenAuthFile")
    if tokens:
        key = tokens.get("key") or "token.csv"
        where = f"/etc/kcp/authentication/token/{key}"
        name = tokens["secretName"]
        path = files.copy(where, name, key, reloads=False, purpose="auth.tokenAuthFile")
        yield f"--token-auth-file={path}"
    structured = at(obj, "auth.configuration.configMap")
    if structured:
        key = structured.get("key") or "config.yaml"
        path = files.copy(
            f"/etc/kcp/authentication/config/{key}",
            structured["name"],
            key,
            kind=CONFIG_MAP,
            purpose="auth.configuration",
        )
        yield f"--authentication-config={path}"


def authorization(obj: Object, files: WorkloadFiles) -> Iterator[str]:
    webhook = at(obj, "authorization.webhook")
    if not webhook:
        return
    if webhook.get("allowPaths"):
        yield f"--authorization-always-allow-paths={','.join(webhook['allowPaths'])}"
    if webhook.get("configSecretName"):
        path = files.copy(
            "/etc/kcp/authorization/webhook/kubeconfig",
            webhook["configSecretName"],
            "kubeconfig",
            reloads=False,
            purpose="authorization.webhook",
        )
        yield f"--authorization-webhook-config-file={path}"
    yield from flags(_AUTHORIZATION_WEBHOOK, webhook)


def audit(obj: Object, files: WorkloadFiles) -> Iterator[str]:
    policy = at(obj, "audit.policy.configMap")
    if policy:
        key = policy.get("key") or "audit-policy.yaml"
        path = files.copy(
            f"/etc/kcp/audit/policy/{key}",
            policy["name"],
            key,
            kind=CONFIG_MAP,
            reloads=False,
            purpose="audit.policy",
        )
        yield f"--audit-policy-file={path}"
    yield from flags(_AUDIT_LOG, at(obj, "audit.log", {}))
    webhook = at(obj, "audit.webhook")
    if webhook:
        if webhook.get("configSecretName"):
            path = files.copy(
                "/etc/kcp/audit/webhook/kubeconfig",
                webhook["configSecretName"],
                "kubeconfig",
                reloads=False,
                purpose="audit.webhook",
            )
            yield f"--audit-webhook-config-file={path}"
        yield from flags(_AUDIT_WEBHOOK, webhook)


def encryption(obj: Object, files: WorkloadFiles) -> Iterator[str]:
    ref = at(obj, "encryption.configSecretRef")
    if ref:
        key = ref.get("key") or "encryption.yaml"
        where = f"/etc/kcp/encryption/{key}"
        path = files.copy(where, ref["name"], key, purpose="encryption.configSecretRef")
        yield f"--encryption-provider-config={path}"
        yield "--encryption-provider-config-automatic-reload=true"
