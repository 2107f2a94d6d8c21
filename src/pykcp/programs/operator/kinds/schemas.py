"""The schema of each kind."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.programs.operator.kinds import access
from pykcp.programs.operator.kinds import parts as p
from pykcp.types import Object

_WORKSPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$"

_ROOT_SHARD_REFERENCE = p.record(
    {"ref": p.NAME_REFERENCE}, "The installation it is part of.", required=("ref",)
)
_BUNDLES = {
    "caBundleSecretRef": p.record(
        {"name": p.text()}, "Secret with further authorities of servers, key tls.crt.", required=("name",)
    ),
    "clientCABundleRef": p.record(
        {"name": p.text()}, "Secret with further authorities of clients, key tls.crt.", required=("name",)
    ),
}  # fmt: skip
_SHARD = {
    "clusterDomain": p.text("Domain of Service names.", default="cluster.local"),
    "shardBaseURL": p.text("URL at which components reach the shard."),
    "etcd": p.ETCD,
    "storage": p.record(
        {"size": p.text(default="8Gi"), "storageClassName": p.text()},
        "Volume of the store, if there is no etcd.",
    ),
    "encryption": access.ENCRYPTION,
    "resources": p.RESOURCES,
    "audit": access.AUDIT,
    "authorization": access.AUTHORIZATION,
    "auth": access.AUTH,
    "kcpVirtualWorkspace": p.NAME_REFERENCE,
    "unschedulable": p.flag("Whether no new workspaces are placed here."),
    "labels": p.mapped({"type": "string"}, "Labels of the Shard object in root."),
    **_BUNDLES,
    **p.WORKLOAD,
}
_ETCD_REPLICAS = (
    "!has(self.replicas) || self.replicas <= 1 || has(self.etcd)",
    "more than one replica requires etcd",
)
_CACHE = p.record(
    {
        "ref": p.NAME_REFERENCE,
        "embedded": p.record({"enabled": p.flag("Not used: embedded unless ref is set.")}),
    }
)
_PROXY_OF_ROOT = p.record(
    {"resources": p.RESOURCES, **p.WORKLOAD, "image": p.INHERITED_IMAGE}, "The internal proxy."
)
_MAPPING = p.record(
    {name: p.text() for name in ("path", "backend", "backend_server_ca", "proxy_client_cert", "proxy_client_key")},
    required=("path", "backend", "backend_server_ca", "proxy_client_cert", "proxy_client_key"),
)  # fmt: skip

_ROOT_SHARD = p.record(
    {
        **_SHARD,
        "external": p.EXTERNAL,
        "cache": _CACHE,
        "proxy": _PROXY_OF_ROOT,
        "certificates": p.CERTIFICATES,
    },
    required=("external", "cache", "certificates"),
    rules=(_ETCD_REPLICAS,),
)
_SHARD_SPEC = p.record(
    {
        **_SHARD,
        "rootShard": _ROOT_SHARD_REFERENCE,
        "cache": p.record({"ref": p.NAME_REFERENCE}),
        "deletionPolicy": p.text(
            "What a deletion does with workspaces on the shard: Refuse waits until there are none.",
            enum=["Refuse", "Force"],
        ),
    },
    required=("rootShard",),
    rules=(_ETCD_REPLICAS,),
)
_FRONT_PROXY = p.record(
    {
        "rootShard": _ROOT_SHARD_REFERENCE,
        "resources": p.RESOURCES,
        "auth": access.AUTH,
        "additionalPathMappings": p.listed(_MAPPING),
        "externalHostname": p.text("Deprecated: use external.hostname."),
        "external": p.EXTERNAL,
        **_BUNDLES,
        **p.WORKLOAD,
    },
    required=("rootShard",),
    rules=(
        (
            "!(has(self.externalHostname) && has(self.external) && has(self.external.hostname))",
            "externalHostname and external.hostname are mutually exclusive",
        ),
        (
            "!has(self.auth) || !has(self.auth.oidc) || (has(self.auth.serviceAccount) && has(self.auth.serviceAccount.enabled) && self.auth.serviceAccount.enabled)",
            "auth.oidc requires auth.serviceAccount.enabled",
        ),
    ),
)
_CACHE_SERVER = p.record(
    {
        "clusterDomain": p.text(default="cluster.local"),
        "certificates": p.CERTIFICATES,
        "etcd": p.ETCD,
        "resources": p.RESOURCES,
        **p.WORKLOAD,
    },
    required=("certificates",),
    rules=(_ETCD_REPLICAS,),
)
_INIT_CONTAINER = p.record(
    {
        "name": p.text(minLength=1),
        "image": {key: value for key, value in p.IMAGE.items() if key != "default"},
        "command": p.listed(p.text()),
        "args": p.listed(p.text()),
        "kubeconfigSecretRef": p.NAME_REFERENCE,
        "resources": p.RESOURCES,
        "volumes": p.FREE_LIST,
        "volumeMounts": p.FREE_LIST,
    },
    required=("name",),
)
_VIRTUAL_WORKSPACE = p.record(
    {
        "clusterDomain": p.text(default="cluster.local"),
        "target": p.record(
            {"rootShardRef": p.NAME_REFERENCE, "shardRef": p.NAME_REFERENCE},
            rules=(
                (
                    "has(self.rootShardRef) != has(self.shardRef)",
                    "exactly one of rootShardRef and shardRef must be set",
                ),
            ),
        ),
        "external": p.EXTERNAL,
        "command": p.listed(p.text(), "The program; virtual-workspaces if empty."),
        "initContainers": p.listed(_INIT_CONTAINER),
        "resources": p.RESOURCES,
        "kubeconfigSecretRef": p.NAME_REFERENCE,
        **_BUNDLES,
        **p.WORKLOAD,
    },
    required=("target", "external"),
)
_KUBECONFIG = p.record(
    {
        "target": p.record(
            {
                "rootShardRef": p.NAME_REFERENCE,
                "shardRef": p.NAME_REFERENCE,
                "frontProxyRef": p.NAME_REFERENCE,
            },
            rules=(
                (
                    "has(self.rootShardRef) || has(self.shardRef) || has(self.frontProxyRef)",
                    "one of rootShardRef, shardRef and frontProxyRef must be set",
                ),
            ),
        ),
        "targetWorkspace": p.text("Workspace of the default context.", pattern=_WORKSPACE),
        "username": p.text("Common name of the certificate."),
        "groups": p.listed(p.text()),
        "validity": p.DURATION,
        "secretRef": p.NAME_REFERENCE,
        "certificateTemplate": p.CERTIFICATE_TEMPLATE,
        "authorization": p.record(
            {
                "clusterRoleBindings": p.record(
                    {
                        "clusterRoles": p.listed(p.text()),
                        "cluster": p.text("Deprecated: use targetWorkspace."),
                    },
                    required=("clusterRoles",),
                )
            }
        ),
    },
    required=("target", "username", "validity", "secretRef"),
    rules=(
        (
            "!(has(self.targetWorkspace) && has(self.authorization) && has(self.authorization.clusterRoleBindings) && has(self.authorization.clusterRoleBindings.cluster))",
            "targetWorkspace and authorization.clusterRoleBindings.cluster are mutually exclusive",
        ),
    ),
)

_STATUS = {
    "phase": p.PHASE,
    "observedGeneration": p.number(),
    "conditions": p.CONDITIONS,
    "addresses": p.ADDRESSES,
    "certificates": p.CERTIFICATE_STATUS,
}
_AGE = ("Age", "date", ".metadata.creationTimestamp")
_PHASE = ("Phase", "string", ".status.phase")
_ROOT = ("RootShard", "string", ".spec.rootShard.ref.name")


class KindSchema(NamedTuple):
    """What makes a CustomResourceDefinition."""

    plural: str
    spec: Object
    status: Object
    columns: tuple[tuple[str, str, str], ...]
    rules: tuple[Object, ...] = ()
    """CEL rules of the whole object."""


# One that exists must stay writable: it is to be deleted.
_NOT_ROOT: Object = {
    "rule": "oldSelf.hasValue() || self.metadata.name != 'root'",
    "optionalOldSelf": True,
    "message": 'a Shard cannot be called "root": a shard of this name is a root shard',
}

SCHEMAS: dict[str, KindSchema] = {
    "RootShard": KindSchema(
        "rootshards",
        _ROOT_SHARD,
        {**_STATUS, "shards": p.listed(p.record({"name": p.text()}))},
        (("Hostname", "string", ".spec.external.hostname"), _PHASE, _AGE),
    ),
    "Shard": KindSchema("shards", _SHARD_SPEC, _STATUS, (_ROOT, _PHASE, _AGE), (_NOT_ROOT,)),
    "FrontProxy": KindSchema(
        "frontproxies",
        _FRONT_PROXY,
        _STATUS,
        (_ROOT, ("ExternalHostname", "string", ".spec.external.hostname"), _PHASE, _AGE),
    ),
    "CacheServer": KindSchema("cacheservers", _CACHE_SERVER, _STATUS, (_PHASE, _AGE)),
    "VirtualWorkspace": KindSchema(
        "virtualworkspaces",
        _VIRTUAL_WORKSPACE,
        _STATUS,
        (("Hostname", "string", ".spec.external.hostname"), _PHASE, _AGE),
    ),
    "Kubeconfig": KindSchema(
        "kubeconfigs",
        _KUBECONFIG,
        {
            **_STATUS,
            "targetName": p.text(),
            "authorization": p.record(
                {"provisionedCluster": p.text(), "rootShard": p.text(), "target": p.text()},
                "Where role bindings were made.",
            ),
        },
        (("Target", "string", ".status.targetName"), _PHASE, _AGE),
    ),
}
