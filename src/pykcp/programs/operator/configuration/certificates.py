"""The certificates of each object: who they are for, who signs them, which names they have."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from pykcp.programs.operator import compiled
from pykcp.programs.operator.configuration.world import (
    World,
    at,
    domain_of,
    name_of,
    owner_of,
    shard_place,
)
from pykcp.programs.operator.names import (
    MOUNTS_USER,
    PROXY_USER,
    ROOT_PROXY_USER,
    owner_labels,
    workload_name,
)
from pykcp.programs.operator.pki.engine import IssuedCertificate, IssuerMissing
from pykcp.programs.operator.pki.issuance import NotIssuedYet
from pykcp.programs.operator.pki.requests import (
    CA_RENEW_BEFORE,
    CA_SECONDS,
    CLIENT_AUTH,
    SERVER_AUTH,
    CertificateRequest,
    duration_seconds,
    issuer_reference,
    with_template,
)
from pykcp.programs.operator.platform import WorkloadPlace
from pykcp.types import Object

SERVER_CA, CLIENT_CA = "server-ca", "client-ca"
REQUEST_HEADER_CA, ACCOUNT_CA = "requestheader-client-ca", "service-account-ca"
INTERMEDIATES = (SERVER_CA, CLIENT_CA, REQUEST_HEADER_CA, ACCOUNT_CA)

MASTERS = "system:masters"
LOGICAL_CLUSTER_ADMIN = "system:kcp:logical-cluster-admin"
EXTERNAL_ADMIN = "system:kcp:external-logical-cluster-admin"
KCP_ADMIN = "system:kcp:admin"


def root_authority(obj: Object) -> str:
    """The Secret of an installation's root: one that was given, of any name, or our own."""
    given = at(obj, "certificates.caSecretRef.name")
    return given or f"{name_of(obj)}-ca"


class ObjectCertificates:
    """Asks for the certificates of one object, with its templates, labels and owner."""

    def __init__(self, world: World, obj: Object, templates: Object | None = None) -> None:
        self._world, self._obj = world, obj
        self._owner = owner_of(obj)
        self._labels = owner_labels(self._owner.kind, self._owner.name)
        given = templates if templates is not None else at(obj, "certificateTemplates", {})
        self._templates: Object = given
        self._issued: list[IssuedCertificate] = []
        self._pending: dict[str, str] = {}
        """What is missing, by the name of the certificate; "" if that follows from another one."""

    @property
    def issued(self) -> list[IssuedCertificate]:
        """All of them. Raises NotIssuedYet: everything was asked for by now."""
        if self._pending:
            raise NotIssuedYet(", ".join(why for why in self._pending.values() if why))
        return self._issued

    def authority(self, name: str, kind: str, issuer: str = "") -> None:
        foreign = at(self._obj, "certificates.issuerRef")
        request = CertificateRequest(
            name,
            issuer,
            issuer_reference(foreign) if foreign and not issuer else None,
            kind,
            name,
            is_authority=True,
            duration=CA_SECONDS,
            renew_before=CA_RENEW_BEFORE,
        )
        self._ask(request)

    def server(self, name: str, issuer: str, hosts: Iterable[str]) -> None:
        request = CertificateRequest(name, issuer, kind="server", usages=(SERVER_AUTH,))
        self._ask(with_hosts(request, hosts))

    def client(self, name: str, kind: str, issuer: str, user: str, *groups: str) -> None:
        request = CertificateRequest(
            name, issuer, kind=kind, common_name=user, organizations=groups, usages=(CLIENT_AUTH,)
        )
        self._ask(request)

    def signing(self, name: str, issuer: str) -> None:
        request = CertificateRequest(name, issuer, kind="service-account", common_name=name)
        with self._waiting(request):
            found = self._world.issuance.ensure_signing(self._complete(request), self._owner)
            self._issued.append(found)

    def user(self, name: str, issuer: str) -> IssuedCertificate:
        """The certificate of a Kubeconfig."""
        spec = self._obj["spec"]
        groups = (*(spec.get("groups") or ()), f"kubeconfig:{name_of(self._obj)}")
        seconds = duration_seconds(spec["validity"])
        request = CertificateRequest(
            name,
            issuer,
            common_name=spec["username"],
            organizations=tuple(dict.fromkeys(groups)),
            usages=(CLIENT_AUTH,),
            duration=seconds,
            renew_before=seconds / 3,
        )
        return self._ensure(with_template(request, spec.get("certificateTemplate")))

    def _ask(self, request: CertificateRequest) -> None:
        with self._waiting(request):
            self._ensure(request)

    @contextmanager
    def _waiting(self, request: CertificateRequest) -> Iterator[None]:
        """What is not there yet does not keep from asking for the others."""
        try:
            yield
        except NotIssuedYet as waiting:
            self._pending[request.name] = str(waiting)
        except IssuerMissing:
            if request.issuer not in self._pending:
                raise
            self._pending[request.name] = ""  # its authority is waited for

    def _complete(self, request: CertificateRequest) -> CertificateRequest:
        request = replace(request, labels=self._labels, secret_labels=self._labels)
        made = with_template(request, self._templates.get(request.kind))
        if made.foreign_issuer is None or self._world.issuance.has_foreign_issuers:
            return made
        # Our own authority signs instead, and names of the platform are no trouble for it.
        names = tuple(dict.fromkeys((*request.dns_names, *made.dns_names)))
        return replace(made, foreign_issuer=None, dns_names=names)

    def _ensure(self, request: CertificateRequest) -> IssuedCertificate:
        found = self._world.issuance.ensure(self._complete(request), self._owner)
        self._issued.append(found)
        return found


def with_hosts(request: CertificateRequest, hosts: Iterable[str]) -> CertificateRequest:
    """The request for these names and addresses."""
    names: list[str] = []
    addresses: list[str] = []
    for host in dict.fromkeys(one for one in hosts if one):
        (addresses if _is_address(host) else names).append(host)
    return replace(request, dns_names=tuple(names), addresses=tuple(addresses))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# --- each kind -------------------------------------------------------------------


def root_certificates(world: World, root: Object) -> list[IssuedCertificate]:
    """All authorities of an installation, and the leaves of its root shard."""
    name, made = name_of(root), ObjectCertificates(world, root)
    top = root_authority(root)
    if top == f"{name}-ca":
        made.authority(top, "root-ca")
    for kind in INTERMEDIATES:
        made.authority(f"{name}-{kind}", kind, top)
    place = shard_place(world, root, compiled.ROOT_SHARD)
    external = root["spec"]["external"]["hostname"]
    hosts = [*world.platform.hosts(place), external, _url_host(root)]
    made.server(f"{name}-server", f"{name}-{SERVER_CA}", hosts)
    made.signing(f"{name}-service-account", f"{name}-{ACCOUNT_CA}")
    clients = f"{name}-{CLIENT_CA}"
    made.client(f"{name}-client", "client", clients, name, MASTERS)
    made.client(f"{name}-kcp-operator", "kcp-operator", clients, "system:kcp-operator", KCP_ADMIN)
    _administrators(made, name, clients, "")
    # Upstream gives the root shard none, so workspaces on it could not be mounted.
    made.client(f"{name}-mounts-proxy", "mounts-proxy", f"{name}-{REQUEST_HEADER_CA}", MOUNTS_USER)
    return made.issued


def _administrators(made: ObjectCertificates, name: str, clients: str, suffix: str) -> None:
    for kind, group in (
        ("logical-cluster-admin", LOGICAL_CLUSTER_ADMIN),
        ("external-logical-cluster-admin", EXTERNAL_ADMIN),
    ):
        made.client(f"{name}-{kind}", kind, clients, f"{kind}{suffix}", group)


def shard_certificates(world: World, shard: Object, root: Object) -> list[IssuedCertificate]:
    name, top, made = name_of(shard), name_of(root), ObjectCertificates(world, shard)
    place = shard_place(world, shard, compiled.SHARD)
    hosts = [*world.platform.hosts(place), _url_host(shard)]
    made.server(f"{name}-server", f"{top}-{SERVER_CA}", hosts)
    made.signing(f"{name}-service-account", f"{top}-{ACCOUNT_CA}")
    clients = f"{top}-{CLIENT_CA}"
    made.client(f"{name}-client", "client", clients, f"shard-{name}", MASTERS)
    _administrators(made, name, clients, f"-shard-{name}")
    made.client(f"{name}-mounts-proxy", "mounts-proxy", f"{top}-{REQUEST_HEADER_CA}", MOUNTS_USER)
    return made.issued


def _url_host(shard: Object) -> str:
    return urlsplit(at(shard, "shardBaseURL", "")).hostname or ""


def proxy_certificates(
    world: World, proxy: Object, root: Object, place: WorkloadPlace
) -> list[IssuedCertificate]:
    """A FrontProxy's: it answers for the installation's own names, too."""
    top, made = name_of(root), ObjectCertificates(world, proxy)
    external = root["spec"]["external"]
    given = at(proxy, "externalHostname", "").rpartition(":")
    hosts = [
        *world.platform.hosts(place),
        external["hostname"],
        external.get("privateHostname") or "",
        given[0] if given[2].isdigit() else given[2],
        at(proxy, "external.hostname", ""),
    ]
    _proxy_leaves(made, top, f"{top}-{name_of(proxy)}", PROXY_USER, hosts)
    return made.issued


def root_proxy_certificates(
    world: World, root: Object, place: WorkloadPlace
) -> list[IssuedCertificate]:
    """The internal proxy's, with the templates of `spec.proxy`."""
    made = ObjectCertificates(world, root, at(root, "proxy.certificateTemplates", {}))
    top = name_of(root)
    _proxy_leaves(made, top, f"{top}-proxy", ROOT_PROXY_USER, world.platform.hosts(place))
    return made.issued


def _proxy_leaves(
    made: ObjectCertificates, top: str, name: str, user: str, hosts: Iterable[str]
) -> None:
    made.server(f"{name}-server", f"{top}-{SERVER_CA}", hosts)
    made.client(f"{name}-kubeconfig", "kubeconfig", f"{top}-{CLIENT_CA}", user, MASTERS)
    made.client(f"{name}-requestheader", "requestheader", f"{top}-{REQUEST_HEADER_CA}", user)


def cache_certificates(world: World, cache: Object) -> list[IssuedCertificate]:
    """A cache server's own tree of one level."""
    name, made = name_of(cache), ObjectCertificates(world, cache)
    top = root_authority(cache)
    if top == f"{name}-ca":
        made.authority(top, "root-ca")
    made.server(f"{name}-server", top, world.platform.hosts(cache_place(world, cache)))
    made.client(f"{name}-client-certificate", "client", top, "cache-client", MASTERS)
    return made.issued


def cache_place(world: World, cache: Object) -> WorkloadPlace:
    workload = workload_name(compiled.CACHE_SERVER, name_of(cache))
    exposed = ((cache["spec"].get("serviceTemplate") or {}).get("spec") or {}).get("type")
    return WorkloadPlace(
        world.namespace, workload, domain_of(cache), is_exposed=exposed in ("LoadBalancer", "NodePort")
    )  # fmt: skip


def virtual_certificates(
    world: World, server: Object, root: Object, place: WorkloadPlace
) -> list[IssuedCertificate]:
    name, top, made = name_of(server), name_of(root), ObjectCertificates(world, server)
    hosts = [*world.platform.hosts(place), server["spec"]["external"]["hostname"]]
    made.server(f"{name}-server", f"{top}-{SERVER_CA}", hosts)
    user = f"{name}-virtual-workspace"
    made.client(f"{name}-client", "client", f"{top}-{CLIENT_CA}", user, MASTERS)
    return made.issued
