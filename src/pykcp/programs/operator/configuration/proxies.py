"""FrontProxy and the internal proxy of a root shard: `kcp-front-proxy`."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.operator import compiled
from pykcp.programs.operator.compiled import PROXY_PROBES, SECURE_PORT, CompiledWorkload
from pykcp.programs.operator.configuration import arguments, trust
from pykcp.programs.operator.configuration.files import (
    WorkloadFiles,
    file_kubeconfig,
    mapping_file,
    put_config,
    put_kubeconfig,
)
from pykcp.programs.operator.configuration.host_services import host_url
from pykcp.programs.operator.configuration.host_volumes import host_volumes
from pykcp.programs.operator.configuration.images import has_our_programs, inherited_image
from pykcp.programs.operator.configuration.shards import SHARDS_FILE
from pykcp.programs.operator.configuration.workloads import (
    extra_arguments,
    listen_flags,
    make_workload,
    merged_resources,
    service_of,
)
from pykcp.programs.operator.configuration.world import (
    World,
    at,
    domain_of,
    is_exposed,
    name_of,
    shard_url,
)
from pykcp.programs.operator.names import (
    MOUNTS_USER,
    PROXY_USER,
    ROOT_PROXY_USER,
    account_keys,
    known_shards,
    workload_name,
)
from pykcp.programs.operator.platform import HostPort, WorkloadPlace
from pykcp.proxy.identity import DROPPED_GROUPS
from pykcp.types import Object

_HOME = "/etc/kcp-front-proxy"
_MAPPED_FILES = ("backend_server_ca", "proxy_client_cert", "proxy_client_key")


def proxy_address(proxy: Object, root: Object) -> HostPort:
    """The address at which users reach a FrontProxy."""
    external = at(proxy, "external")
    if external:
        return HostPort(external["hostname"], external["port"])
    given = at(proxy, "externalHostname")
    if given:
        host, colon, port = given.rpartition(":")
        return HostPort(host, int(port)) if colon and port.isdigit() else HostPort(given, SECURE_PORT)  # fmt: skip
    external = root["spec"]["external"]
    return HostPort(external["hostname"], external["port"])


def proxy_place(world: World, proxy: Object, root: Object) -> WorkloadPlace:
    address = proxy_address(proxy, root)
    return WorkloadPlace(
        world.namespace,
        workload_name(compiled.FRONT_PROXY, name_of(proxy)),
        domain_of(root),
        address.host,
        address.port,
        is_exposed(proxy["spec"]),
    )


def root_proxy_place(world: World, root: Object) -> WorkloadPlace:
    workload = workload_name(compiled.ROOT_SHARD_PROXY, name_of(root))
    return WorkloadPlace(world.namespace, workload, domain_of(root))


def front_proxy_workload(world: World, proxy: Object, root: Object) -> CompiledWorkload:
    top, name = name_of(root), name_of(proxy)
    made = _ProxyWorkload(world, root, proxy, proxy["spec"], proxy_place(world, proxy, root))
    return made.make(
        compiled.FRONT_PROXY,
        f"{top}-{name}",
        f"{name}-config",
        name,
        PROXY_USER,
        proxy_address(proxy, root).port,
    )


def root_proxy_workload(world: World, root: Object) -> CompiledWorkload:
    """Resolves paths of workspaces for the operator; the administrator's groups are not dropped."""
    name = f"{name_of(root)}-proxy"
    spec = inherited_image(at(root, "proxy", {}), root["spec"])
    made = _ProxyWorkload(world, root, root, spec, root_proxy_place(world, root))
    return made.make(
        compiled.ROOT_SHARD_PROXY, name, f"{name}-config", name, ROOT_PROXY_USER, SECURE_PORT
    )


class _ProxyWorkload:
    def __init__(
        self, world: World, root: Object, owner: Object, spec: Object, place: WorkloadPlace
    ) -> None:
        self._world, self._root, self._owner, self._spec = world, root, owner, spec
        self._place, self._files = place, WorkloadFiles(world, place)
        self._is_internal = owner is root

    def make(
        self, component: str, prefix: str, config: str, bundles: str, user: str, port: int
    ) -> CompiledWorkload:
        """`prefix`: of its Secrets; `bundles`: of its merged authorities."""
        world, files, spec = self._world, self._files, self._spec
        top = trust.trust_name(name_of(self._root))
        authority = files.copy("/etc/kcp/tls/ca/tls.crt", top, trust.SERVER)
        # One bundle for routing and for indexing: a shard with a foreign certificate needs both.
        backend = self._backend(bundles, authority)
        words = [
            *listen_flags(world, self._place),
            f"--root-directory={world.platform.data(self._place)}",
            *self._shards(prefix, backend),
            *self._expected_shards(),
            *self._serving(prefix, bundles, top, user),
            f"--mapping-file={self._mapping(prefix, config, backend)}",
            *arguments.verbosity(spec),
        ]
        if not self._is_internal:
            words += self._groups()
            words += arguments.authentication(self._owner, files)
            words += self._accounts()
        return make_workload(
            world,
            self._owner,
            spec,
            component,
            self._place,
            files,
            backend,
            program="kcp-front-proxy",
            arguments=(*words, *extra_arguments(spec)),
            data_directory=world.platform.data(self._place),
            probes=PROXY_PROBES,
            replicas=spec.get("replicas"),
            resources=merged_resources(spec, {}),
            service=service_of(spec, port),
        )

    def _backend(self, name: str, authority: str) -> str:
        if self._is_internal or not at(self._owner, "caBundleSecretRef.name"):
            return authority
        secret, key = trust.backend_bundle(self._world, self._root, self._owner, name)
        return self._files.copy("/etc/kcp/tls/ca/ca-bundle/tls.crt", secret, key)

    def _shards(self, prefix: str, backend: str) -> Iterator[str]:
        pair = self._files.pair(f"{_HOME}/kubeconfig-client-cert", f"{prefix}-kubeconfig")
        root = shard_url(self._world, self._root, compiled.ROOT_SHARD)
        text = file_kubeconfig(("system:admin", "system:admin", "admin"), root, backend, pair)
        secret = put_kubeconfig(self._world, self._owner, f"{prefix}-dynamic-kubeconfig", text).name
        path = self._files.copy(
            f"{_HOME}/kubeconfig/kubeconfig", secret, "kubeconfig", reloads=False
        )
        yield f"--root-kubeconfig={path}"
        yield f"--shards-kubeconfig={path}"

    def _expected_shards(self) -> Iterator[str]:
        """For a start while the root shard is away."""
        if has_our_programs(self._world.platform, self._spec):
            name = known_shards(name_of(self._root))
            where = f"{_HOME}/shards/{SHARDS_FILE}"
            path = self._files.copy(where, name, SHARDS_FILE, kind=compiled.CONFIG_MAP)
            yield f"--shards-file={path}"

    def _serving(self, prefix: str, bundles: str, top: str, user: str) -> Iterator[str]:
        files = self._files
        serving = files.pair(f"{_HOME}/tls", f"{prefix}-server")
        yield f"--tls-cert-file={serving[0]}"
        yield f"--tls-private-key-file={serving[1]}"
        owner = None if self._is_internal else self._owner
        clients = trust.client_bundle(self._world, self._root, owner, bundles, always=True)
        yield f"--client-ca-file={files.copy(f'{_HOME}/client-ca/tls.crt', *clients)}"
        proxies = files.copy(
            "/etc/kcp/tls/ca/requestheader-client/tls.crt", top, trust.REQUEST_HEADER
        )
        yield f"--requestheader-client-ca-file={proxies}"
        yield f"--requestheader-allowed-names={user},{MOUNTS_USER}"
        yield from arguments.REQUEST_HEADERS

    def _mapping(self, prefix: str, config: str, backend: str) -> str:
        """Logical clusters are looked up; /services/ without one goes to the root shard."""
        pair = self._files.pair(f"{_HOME}/requestheader-client", f"{prefix}-requestheader")
        root = shard_url(self._world, self._root, compiled.ROOT_SHARD)
        entries: list[Object] = [
            {
                "path": path,
                "backend": root,
                "backend_server_ca": backend,
                "proxy_client_cert": pair[0],
                "proxy_client_key": pair[1],
            }
            for path in ("/services/", "/clusters/")
        ]
        entries += self._additional()
        data = {"path-mapping.yaml": mapping_file(entries)}
        name = put_config(self._world, self._owner, config, data).name
        return self._files.copy(
            f"{_HOME}/config/path-mapping.yaml",
            name,
            "path-mapping.yaml",
            kind=compiled.CONFIG_MAP,
            reloads=False,
        )

    def _additional(self) -> Iterator[Object]:
        """Entries of the user; they name files and Services as they are called in a cluster."""
        volumes = host_volumes(self._world, self._place, self._spec)
        made = {one.path for one in self._files.made}
        for given in self._spec.get("additionalPathMappings") or ():
            entry = dict(given)
            if volumes is not None:
                entry["backend"] = host_url(self._world, given["backend"])
                for name in _MAPPED_FILES:
                    path = self._files.path(given[name])
                    entry[name] = path if path in made else volumes.text(given[name])
            yield entry

    def _groups(self) -> Iterator[str]:
        """Groups to drop are added to those that protect the shards, which must be named to go."""
        more, kept = at(self._owner, "auth.dropGroups", []), at(self._owner, "auth.keepGroups", [])
        if more or kept:
            dropped = [group for group in (*DROPPED_GROUPS, *more) if group not in kept]
            yield f"--authentication-drop-groups={','.join(dict.fromkeys(dropped))}"
        if anonymous := at(self._owner, "auth.anonymous"):
            yield f"--authentication-anonymous={anonymous.lower()}"
        if passed := at(self._owner, "auth.passOnGroups"):
            yield f"--authentication-pass-on-groups={','.join(passed)}"

    def _accounts(self) -> Iterator[str]:
        if at(self._owner, "auth.serviceAccount.enabled"):
            secret = account_keys(name_of(self._root))
            where = "/etc/kcp/tls/service-account-keys/keys.pem"
            yield f"--service-account-key-file={self._files.copy(where, secret, 'keys.pem')}"
            yield "--service-account-lookup=false"
