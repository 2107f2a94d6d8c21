"""RootShard and Shard: `kcp start`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pykcp.programs.operator import compiled
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, SHARD_PROBES, CompiledWorkload
from pykcp.programs.operator.configuration import arguments, images, trust
from pykcp.programs.operator.configuration.caches import cache_connection
from pykcp.programs.operator.configuration.files import (
    WorkloadFiles,
    file_kubeconfig,
    put_config,
    put_kubeconfig,
)
from pykcp.programs.operator.configuration.workloads import (
    SHARD_RESOURCES,
    extra_arguments,
    listen_flags,
    make_workload,
    merged_resources,
    service_of,
)
from pykcp.programs.operator.configuration.world import (
    AVAILABLE,
    NotConfigurable,
    World,
    at,
    external_url,
    name_of,
    private_url,
    shard_place,
    shard_url,
)
from pykcp.programs.operator.names import account_keys, known_shards
from pykcp.programs.operator.platform import HostPort
from pykcp.types import Object

CA = "/etc/kcp/tls/ca"
SHARDS_FILE = "shards.json"
"""The key of the ConfigMap with the shards of an installation."""


def root_shard_workload(world: World, root: Object) -> CompiledWorkload:
    return _ShardWorkload(world, root, root, compiled.ROOT_SHARD).make()


def shard_workload(world: World, shard: Object, root: Object) -> CompiledWorkload:
    return _ShardWorkload(world, shard, root, compiled.SHARD).make()


class _ShardWorkload:
    def __init__(self, world: World, shard: Object, root: Object, component: str) -> None:
        self._world, self._shard, self._root, self._component = world, shard, root, component
        self._name, self._top = name_of(shard), name_of(root)
        self._place = shard_place(world, shard, component)
        self._files = WorkloadFiles(world, self._place)
        self._url = shard_url(world, shard, component)
        self._is_root = component == compiled.ROOT_SHARD

    def make(self) -> CompiledWorkload:
        spec, world = self._shard["spec"], self._world
        authority = self._trust("server", trust.SERVER)
        words = [
            "start",
            *listen_flags(world, self._place),
            f"--root-directory={world.platform.data(self._place)}",
            *self._identity(authority),
            *self._certificates(),
            *self._kubeconfigs(authority),
            "--batteries-included=workspace-types",
            "--enable-leader-election=true",
            "--logging-format=json",
            *arguments.verbosity(spec),
            *self._cache(),
            *self._virtual_workspaces(),
            *arguments.etcd(spec, self._files, "/etc/etcd/tls"),
            *arguments.encryption(self._shard, self._files),
            *arguments.audit(self._shard, self._files),
            *arguments.authorization(self._shard, self._files),
            *arguments.authentication(self._shard, self._files),
            *extra_arguments(spec),
        ]
        is_single = not spec.get("etcd")
        return make_workload(
            world,
            self._shard,
            spec,
            self._component,
            self._place,
            self._files,
            authority,
            program="kcp",
            arguments=tuple(words),
            data_directory=world.platform.data(self._place),
            is_single=is_single,
            storage=spec.get("storage") or {},
            probes=SHARD_PROBES,
            replicas=spec.get("replicas", 1 if is_single else None),
            resources=merged_resources(spec, SHARD_RESOURCES),
            service=service_of(spec),
        )

    def _trust(self, directory: str, key: str) -> str:
        # The root is published in every namespace by a controller, which reads it once.
        name, reloads = trust.trust_name(self._top), key != trust.ROOT
        return self._files.copy(f"{CA}/{directory}/tls.crt", name, key, reloads=reloads)

    def _identity(self, authority: str) -> Iterator[str]:
        if not self._is_root:
            yield f"--shard-name={self._name}"
        yield f"--shard-base-url={self._url}"
        yield f"--shard-external-url={external_url(self._root)}"
        if not self._is_root:
            yield f"--external-hostname={self._root['spec']['external']['hostname']}"
        pair = self._files.pair("/etc/kcp/tls/client", f"{self._name}-client")
        yield f"--shard-client-cert-file={pair[0]}"
        yield f"--shard-client-key-file={pair[1]}"
        yield f"--shard-virtual-workspace-ca-file={authority}"
        if not images.knows(self._world.platform, self._shard["spec"], images.MOUNTS):
            return
        mounts = self._files.pair("/etc/kcp/tls/mounts-proxy", f"{self._name}-mounts-proxy")
        yield f"--mount-proxy-client-cert-file={mounts[0]}"
        yield f"--mount-proxy-client-key-file={mounts[1]}"

    def _certificates(self) -> Iterator[str]:
        files = self._files
        clients = trust.client_bundle(self._world, self._root, self._shard, self._name)
        yield f"--client-ca-file={files.copy(f'{CA}/client/tls.crt', *clients)}"
        yield f"--root-ca-file={self._trust('root', trust.ROOT)}"
        proxies = self._trust("requestheader-client", trust.REQUEST_HEADER)
        yield f"--requestheader-client-ca-file={proxies}"
        yield arguments.TRUSTED_PROXIES
        yield from arguments.REQUEST_HEADERS
        serving = files.pair("/etc/kcp/tls/server", f"{self._name}-server")
        yield f"--tls-cert-file={serving[0]}"
        yield f"--tls-private-key-file={serving[1]}"
        yield from self._account_keys()

    def _account_keys(self) -> Iterator[str]:
        """The shard signs with its own key and accepts its own, or those of all shards."""
        accepts_all = at(self._shard, "auth.serviceAccount.enabled")
        key = "keys.pem" if accepts_all else f"{self._name}.pem"
        where = "/etc/kcp/tls/service-account-keys/keys.pem"
        keys = self._files.copy(where, account_keys(self._top), key)
        signing = self._files.copy(
            "/etc/kcp/tls/service-account/tls.key", f"{self._name}-service-account", "tls.key"
        )
        yield f"--service-account-key-file={keys}"
        yield f"--service-account-private-key-file={signing}"
        yield f"--service-account-signing-key-file={signing}"
        yield "--service-account-lookup=false"

    def _kubeconfigs(self, authority: str) -> Iterator[str]:
        world, shard, name = self._world, self._shard, self._name
        internal = ("logical-cluster:admin", "logical-cluster", "logical-cluster-admin")
        external = (
            "external-logical-cluster:admin",
            "external-logical-cluster",
            "external-logical-cluster-admin",
        )
        if self._is_root:
            internal = external = ("root-shard", "shard-base", "shard")
        backend = self._backend_authority(authority)
        for kind, names, url, believed in (
            ("logical-cluster-admin", internal, self._url, authority),
            ("external-logical-cluster-admin", external, private_url(self._root), backend),
        ):
            pair = self._files.pair(f"/etc/kcp/tls/{kind}", f"{name}-{kind}")
            text = file_kubeconfig(names, url, believed, pair)
            secret = put_kubeconfig(world, shard, f"{name}-{kind}-kubeconfig", text).name
            path = self._files.copy(
                f"/etc/kcp/{kind}-kubeconfig/kubeconfig", secret, "kubeconfig", reloads=False
            )
            yield f"--{kind}-kubeconfig={path}"
        if not self._is_root:
            yield f"--root-shard-kubeconfig-file={self._root_kubeconfig(authority)}"

    def _backend_authority(self, authority: str) -> str:
        """What the front-proxy is verified with, which may have a foreign certificate."""
        if not at(self._shard, "caBundleSecretRef.name"):
            return authority
        secret, key = trust.backend_bundle(self._world, self._root, self._shard, self._name)
        return self._files.copy(f"{CA}/ca-bundle/tls.crt", secret, key)

    def _root_kubeconfig(self, authority: str) -> str:
        pair = tuple(
            self._files.path(f"/etc/kcp/tls/client/{one}") for one in ("tls.crt", "tls.key")
        )
        root = shard_url(self._world, self._root, compiled.ROOT_SHARD)
        text = file_kubeconfig(
            ("root-shard", "shard-base", "shard"), root, authority, (pair[0], pair[1])
        )
        secret = put_kubeconfig(
            self._world, self._shard, f"{self._name}-client-kubeconfig", text
        ).name
        return self._files.copy(
            "/etc/kcp/client-kubeconfig/kubeconfig", secret, "kubeconfig", reloads=False
        )

    def _cache(self) -> Iterator[str]:
        """A cache server of its own, or that in the root shard."""
        name = at(self._shard, "cache.ref.name") or at(self._root, "cache.ref.name")
        if name:
            yield f"--cache-kubeconfig={cache_connection(self._world, name, self._files, self._shard)}"
        elif not self._is_root:
            yield f"--cache-kubeconfig={self._files.path('/etc/kcp/client-kubeconfig/kubeconfig')}"

    def _virtual_workspaces(self) -> Iterator[str]:
        name = at(self._shard, "kcpVirtualWorkspace.name")
        if not name:
            return
        server = self._world.get("VirtualWorkspace", name)
        if server is None:
            why = f'kcpVirtualWorkspace: VirtualWorkspace "{name}" does not exist'
            raise NotConfigurable(AVAILABLE, "InputMissing", why)
        yield "--run-virtual-workspaces=false"
        yield f"--shard-virtual-workspace-url={_external_url(server)}"


def put_known_shards(world: World, root: Object) -> None:
    """The Shard objects of an installation as the shards will write them into `root`.

    A front-proxy that starts while the root shard is away knows the shards from here.
    """
    shards = [(root, "root", compiled.ROOT_SHARD)]
    shards += [(one, name_of(one), compiled.SHARD) for one in world.shards_of(name_of(root))]
    made = [
        {
            "metadata": {"name": name},
            "spec": {
                "baseURL": (url := shard_url(world, shard, component)),
                "externalURL": external_url(root),
                "virtualWorkspaceURL": _virtual_workspace_url(world, shard) or url,
            },
        }
        for shard, name, component in shards
    ]
    text = json.dumps(made, indent=2).encode() + b"\n"
    put_config(world, root, known_shards(name_of(root)), {SHARDS_FILE: text})


def _virtual_workspace_url(world: World, shard: Object) -> str:
    """Of a server of its own; empty if the shard serves its virtual workspaces itself."""
    server = world.get("VirtualWorkspace", at(shard, "kcpVirtualWorkspace.name", ""))
    return "" if server is None else _external_url(server)


def _external_url(server: Object) -> str:
    external = server["spec"]["external"]
    return HostPort(external["hostname"], external["port"]).url


def default_replicas(workload: CompiledWorkload) -> int:
    return DEFAULT_REPLICAS if workload.replicas is None else workload.replicas
