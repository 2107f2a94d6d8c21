"""CacheServer: `cache-server`, and how shards connect to it."""

from __future__ import annotations

from pykcp.programs.operator.compiled import CACHE_SERVER, PROXY_PROBES, CompiledWorkload
from pykcp.programs.operator.configuration import arguments, images
from pykcp.programs.operator.configuration.certificates import cache_place, root_authority
from pykcp.programs.operator.configuration.files import (
    WorkloadFiles,
    file_kubeconfig,
    put_kubeconfig,
    put_record,
)
from pykcp.programs.operator.configuration.workloads import (
    CACHE_RESOURCES,
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
    name_of,
)
from pykcp.types import Object

_TLS = "/etc/cache-server/tls"


def _trust(cache: Object) -> str:
    return f"{name_of(cache)}-trust"


def put_cache_trust(world: World, cache: Object) -> None:
    """What verifies the cache server and its clients."""
    top = root_authority(cache)
    put_record(world, cache, _trust(cache), {"ca.crt": world.issuance.trusted(top)})


def cache_workload(world: World, cache: Object) -> CompiledWorkload:
    spec, name = cache["spec"], name_of(cache)
    place = cache_place(world, cache)
    files = WorkloadFiles(world, place)
    authority = files.copy(f"{_TLS}/ca/root/tls.crt", _trust(cache), "ca.crt")
    serving = files.pair(f"{_TLS}/server", f"{name}-server")
    is_single = not spec.get("etcd")
    knows = images.knows(world.platform, spec, images.CACHE_CLIENTS)
    clients = [f"--client-ca-file={authority}"] if knows else []
    words = [
        *listen_flags(world, place),
        f"--root-directory={world.platform.data(place)}",
        f"--tls-cert-file={serving[0]}",
        f"--tls-private-key-file={serving[1]}",
        *clients,
        *arguments.verbosity(spec),
        *arguments.etcd(spec, files, "/etc/cache-server/etcd"),
        *extra_arguments(spec),
    ]
    return make_workload(
        world,
        cache,
        spec,
        CACHE_SERVER,
        place,
        files,
        authority,
        program="cache-server",
        arguments=tuple(words),
        data_directory=world.platform.data(place),
        is_single=is_single,
        probes=PROXY_PROBES,
        replicas=spec.get("replicas", 1 if is_single else None),
        resources=merged_resources(spec, CACHE_RESOURCES),
        service=service_of(spec),
    )


def cache_connection(world: World, name: str, files: WorkloadFiles, user: Object) -> str:
    """The kubeconfig with which a workload connects to a cache server."""
    cache = world.get("CacheServer", name)
    if cache is None:
        why = f'cache.ref: CacheServer "{name}" does not exist'
        raise NotConfigurable(AVAILABLE, "InputMissing", why)
    authority = files.copy(f"{_TLS}/ca/root/tls.crt", _trust(cache), "ca.crt")
    pair = files.pair(f"{_TLS}/client-certificate", f"{name}-client-certificate")
    url = world.platform.reached(cache_place(world, cache)).url
    text = file_kubeconfig(("cache", "cache", "cache"), url, authority, pair)
    # Paths differ between workloads of a host, and are the same in all containers.
    secret = f"{name}-kubeconfig"
    if world.platform.name != "kubernetes":
        secret = f"{name_of(user)}-cache-kubeconfig"
    owner = cache if world.platform.name == "kubernetes" else user
    put_kubeconfig(world, owner, secret, text)
    return files.copy(
        "/etc/cache-server/kubeconfig/kubeconfig", secret, "kubeconfig", reloads=False
    )
