"""Kubeconfig: a certificate and a kubeconfig for a user."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.programs.operator import compiled
from pykcp.programs.operator.configuration import trust
from pykcp.programs.operator.configuration.certificates import CLIENT_CA, ObjectCertificates
from pykcp.programs.operator.configuration.files import embedded_kubeconfig, put_kubeconfig
from pykcp.programs.operator.configuration.proxies import proxy_address
from pykcp.programs.operator.configuration.world import (
    REFERENCE_VALID,
    ConfiguredObject,
    NotConfigurable,
    World,
    at,
    name_of,
    shard_url,
)
from pykcp.types import Object


class KubeconfigTarget(NamedTuple):
    """What a Kubeconfig is for."""

    obj: Object
    root: Object
    url: str

    @property
    def label(self) -> str:
        return f"{self.obj['kind']}/{name_of(self.obj)}"

    @property
    def is_shard(self) -> bool:
        return bool(self.obj["kind"] != "FrontProxy")


def kubeconfig_target(world: World, obj: Object) -> KubeconfigTarget:
    """The first reference that is set counts. Raises NotConfigurable."""
    kind, name = target_reference(obj)
    if not kind:
        raise NotConfigurable(REFERENCE_VALID, "ReferenceNotFound", "no target is set")
    return find_target(world, kind, name)


def target_reference(obj: Object) -> tuple[str, str]:
    """Kind and name of the target, whether it exists or not; both "" if none is set."""
    target = obj["spec"]["target"]
    for field, kind in (
        ("rootShardRef", "RootShard"),
        ("shardRef", "Shard"),
        ("frontProxyRef", "FrontProxy"),
    ):
        if target.get(field):
            return kind, target[field]["name"]
    return "", ""


def find_target(world: World, kind: str, name: str) -> KubeconfigTarget:
    """Raises NotConfigurable."""
    found = world.get(kind, name)
    if found is None:
        why = f'{kind} "{name}" does not exist'
        raise NotConfigurable(REFERENCE_VALID, "ReferenceNotFound", why)
    if found["kind"] == "RootShard":
        return KubeconfigTarget(found, found, shard_url(world, found, compiled.ROOT_SHARD))
    root = world.root_of(found)
    if found["kind"] == "Shard":
        return KubeconfigTarget(found, root, shard_url(world, found, compiled.SHARD))
    return KubeconfigTarget(found, root, proxy_address(found, root).url)


def configure_kubeconfig(world: World, obj: Object) -> ConfiguredObject:
    target = kubeconfig_target(world, obj)
    made = ObjectCertificates(world, obj)
    issuer = f"{name_of(target.root)}-{CLIENT_CA}"
    pair = made.user(f"kubeconfig-cert-{name_of(obj)}", issuer)
    authority = trust.server_trust(world, target.root)
    extra = at(target.obj, "caBundleSecretRef.name") if not target.is_shard else None
    if extra:
        authority += world.secret(extra, "tls.crt", "caBundleSecretRef")
    workspace = at(obj, "targetWorkspace", "root")
    contexts = {"default": "default", "base": "base"}
    if target.is_shard:
        contexts["shard-base"] = "base"
    text = embedded_kubeconfig(
        {"default": f"{target.url}/clusters/{workspace}", "base": target.url},
        contexts,
        obj["spec"]["username"],
        authority,
        (pair.certificate, pair.key),
    )
    put_kubeconfig(world, obj, obj["spec"]["secretRef"]["name"], text)
    return ConfiguredObject((), tuple(made.issued), (target.url,))
