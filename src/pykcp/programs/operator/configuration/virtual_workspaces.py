"""VirtualWorkspace: `virtual-workspaces`, or a program of the user."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.operator import compiled
from pykcp.programs.operator.compiled import (
    SHARD_PROBES,
    CompiledFile,
    CompiledWorkload,
    FileSource,
    InitStep,
    Probes,
)
from pykcp.programs.operator.configuration import arguments, trust
from pykcp.programs.operator.configuration.caches import cache_connection
from pykcp.programs.operator.configuration.files import (
    WorkloadFiles,
    file_kubeconfig,
    put_kubeconfig,
)
from pykcp.programs.operator.configuration.images import has_our_programs
from pykcp.programs.operator.configuration.workloads import (
    SHARD_RESOURCES,
    claims_of,
    extra_arguments,
    listen_flags,
    make_workload,
    merged_resources,
    service_of,
)
from pykcp.programs.operator.configuration.world import (
    REFERENCE_VALID,
    NotConfigurable,
    World,
    at,
    domain_of,
    is_exposed,
    name_of,
    shard_url,
)
from pykcp.programs.operator.names import workload_name
from pykcp.programs.operator.platform import WorkloadPlace
from pykcp.types import Object

_PROGRAM = "virtual-workspaces"


def virtual_place(world: World, server: Object) -> WorkloadPlace:
    external = server["spec"]["external"]
    return WorkloadPlace(
        world.namespace,
        workload_name(compiled.VIRTUAL_WORKSPACE, name_of(server)),
        domain_of(server),
        external["hostname"],
        external["port"],
        is_exposed(server["spec"]),
    )


def target_of(world: World, server: Object) -> tuple[Object, Object, str]:
    """The shard that it serves, the root shard, and the shard's component."""
    target = server["spec"]["target"]
    if target.get("rootShardRef"):
        name = target["rootShardRef"]["name"]
        found = world.get("RootShard", name)
        if found is None:
            raise NotConfigurable(
                REFERENCE_VALID, "ReferenceNotFound", f'RootShard "{name}" does not exist'
            )
        return found, found, compiled.ROOT_SHARD
    name = target["shardRef"]["name"]
    found = world.get("Shard", name)
    if found is None:
        raise NotConfigurable(
            REFERENCE_VALID, "ReferenceNotFound", f'Shard "{name}" does not exist'
        )
    return found, world.root_of(found), compiled.SHARD


def virtual_workload(world: World, server: Object) -> CompiledWorkload:
    return _VirtualWorkload(world, server).make()


class _VirtualWorkload:
    def __init__(self, world: World, server: Object) -> None:
        self._world, self._server = world, server
        self._shard, self._root, self._component = target_of(world, server)
        self._place = virtual_place(world, server)
        self._files = WorkloadFiles(world, self._place)
        self._name = name_of(server)

    def make(self) -> CompiledWorkload:
        world, spec, files = self._world, self._server["spec"], self._files
        top = trust.trust_name(name_of(self._root))
        authority = files.copy("/etc/kcp/tls/ca/server/tls.crt", top, trust.SERVER)
        clients = trust.client_bundle(world, self._root, self._server, self._name)
        proxies = files.copy(
            "/etc/kcp/tls/ca/requestheader-client/tls.crt", top, trust.REQUEST_HEADER
        )
        serving = files.pair("/etc/kcp/tls/server", f"{self._name}-server")
        program, *words = spec.get("command") or [_PROGRAM]
        words += [
            f"--client-ca-file={files.copy('/etc/kcp/tls/ca/client/tls.crt', *clients)}",
            f"--tls-cert-file={serving[0]}",
            f"--tls-private-key-file={serving[1]}",
            *listen_flags(world, self._place),
            f"--requestheader-client-ca-file={proxies}",
            arguments.TRUSTED_PROXIES,
            *arguments.REQUEST_HEADERS,
            f"--kubeconfig={self._kubeconfig(authority)}",
            *self._own_flags(program),
            *arguments.verbosity(spec),
            *extra_arguments(spec),
        ]
        return make_workload(
            world,
            self._server,
            spec,
            compiled.VIRTUAL_WORKSPACE,
            self._place,
            files,
            authority,
            program=program.removeprefix("/") if program == f"/{_PROGRAM}" else program,
            arguments=tuple(words),
            probes=self._probes(program),
            replicas=spec.get("replicas"),
            resources=merged_resources(spec, SHARD_RESOURCES),
            service=service_of(spec),
            init=tuple(self._init()),
        )

    def _probes(self, program: str) -> Probes:
        """Of our own program: it is not known who may ask others, and what they answer."""
        is_ours = has_our_programs(self._world.platform, self._server["spec"])
        return SHARD_PROBES if is_ours and program.removeprefix("/") == _PROGRAM else Probes()

    def _own_flags(self, program: str) -> Iterator[str]:
        """Flags that only kcp's own program knows."""
        if program.removeprefix("/") != _PROGRAM:
            return
        yield "--shard-external-url=https://127.0.0.1:6443"
        cache = at(self._shard, "cache.ref.name") or at(self._root, "cache.ref.name")
        if cache:
            connection = cache_connection(self._world, cache, self._files, self._server)
            yield f"--cache-kubeconfig={connection}"

    def _kubeconfig(self, authority: str) -> str:
        """The user's own, or that of an administrator of the shard with a certificate of ours."""
        given = at(self._server, "kubeconfigSecretRef.name")
        if given:
            return self._files.copy(
                "/etc/kcp/server-kubeconfig/kubeconfig",
                given,
                "kubeconfig",
                reloads=False,
                purpose="kubeconfigSecretRef",
            )
        pair = self._files.pair("/etc/kcp/tls/logical-cluster-admin", f"{self._name}-client")
        url = shard_url(self._world, self._shard, self._component)
        names = ("logical-cluster:admin", "logical-cluster", "logical-cluster-admin")
        text = file_kubeconfig(names, url, authority, pair)
        name = f"{self._name}-client-kubeconfig"
        secret = put_kubeconfig(self._world, self._server, name, text).name
        where = "/etc/kcp/logical-cluster-admin-kubeconfig/kubeconfig"
        return self._files.copy(where, secret, "kubeconfig", reloads=False)

    def _init(self) -> Iterator[InitStep]:
        for given in at(self._server, "initContainers", []):
            yield InitStep(
                given["name"],
                tuple(given.get("command") or ()),
                tuple(given.get("args") or ()),
                _image(given.get("image")),
                merged_resources(given, {}),
                tuple(self._init_files(given)),
                tuple(given.get("volumes") or ()),
                tuple(given.get("volumeMounts") or ()),
                claims_of(given),
            )

    def _init_files(self, given: Object) -> Iterator[CompiledFile]:
        ref = given.get("kubeconfigSecretRef")
        if ref:
            purpose = f"initContainers {given['name']}"
            content = self._world.secret(ref["name"], "kubeconfig", purpose)
            source = FileSource(compiled.SECRET, ref["name"], "kubeconfig")
            where = self._files.path("/etc/kcp/init-kubeconfig/kubeconfig")
            yield CompiledFile(where, content, source)


def _image(given: Object | None) -> str:
    """Of a step that has one of its own; "" for that of the workload."""
    return f"{given['repository']}:{given['tag']}" if given else ""
