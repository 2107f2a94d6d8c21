"""Bundles of authorities: which servers a client believes, and which clients a server believes.

Files that verify servers contain the self-signed root besides the authority, since OpenSSL wants
to know a whole chain. Files that verify clients never do: every authority of the installation
hangs below that root, so a certificate of one purpose would count for another.
"""

from __future__ import annotations

from pykcp.programs.operator.configuration.certificates import (
    CLIENT_CA,
    REQUEST_HEADER_CA,
    SERVER_CA,
    root_authority,
)
from pykcp.programs.operator.configuration.files import put_record
from pykcp.programs.operator.configuration.world import World, at, name_of
from pykcp.programs.operator.names import account_keys, merged_ca_bundle, merged_client_ca
from pykcp.types import Object

CLIENT, REQUEST_HEADER, SERVER, ROOT = (
    "client-ca.crt", "requestheader-client-ca.crt", "server-ca.crt", "root-ca.crt",
)  # fmt: skip


def trust_name(name: str) -> str:
    """The Secret with the bundles of an installation; it holds nothing private."""
    return f"{name}-trust"


def put_trust(world: World, root: Object) -> None:
    """The bundles of an installation, with authorities that are being introduced or retired."""
    name, issuance = name_of(root), world.issuance
    top = root_authority(root)
    server = f"{name}-{SERVER_CA}"
    roots = _distinct(issuance.trusted(top), issuance.root_of(top))
    data = {
        CLIENT: issuance.trusted(f"{name}-{CLIENT_CA}"),
        REQUEST_HEADER: issuance.trusted(f"{name}-{REQUEST_HEADER_CA}"),
        SERVER: _distinct(issuance.trusted(server), issuance.root_of(server), roots),
        ROOT: roots,
    }
    put_record(world, root, trust_name(name), data)


def put_account_keys(world: World, root: Object) -> str:
    """The public keys of the service accounts of all shards, as one file that is reloaded.

    A shard that joins adds its key here, and nothing has to be restarted for it.
    """
    name = name_of(root)
    signers = [name, *(name_of(shard) for shard in world.shards_of(name))]
    keys = b"".join(world.issuance.verification_keys(f"{one}-service-account") for one in signers)
    data = {"keys.pem": keys}
    for one in signers:
        if own := world.issuance.verification_keys(f"{one}-service-account"):
            data[f"{one}.pem"] = own
    return put_record(world, root, account_keys(name), data).name


def client_bundle(
    world: World, root: Object, obj: Object | None, name: str, *, always: bool = False
) -> tuple[str, str]:
    """Secret and key of the clients that a server believes: the user may add authorities."""
    names = [at(root, "clientCABundleRef.name")]
    if obj is not None and obj is not root:
        names.append(at(obj, "clientCABundleRef.name"))
    extra = [world.secret(one, "tls.crt", "clientCABundleRef") for one in names if one]
    if not extra and not always:
        return trust_name(name_of(root)), CLIENT
    own = world.issuance.trusted(f"{name_of(root)}-{CLIENT_CA}")
    merged = put_record(
        world, obj or root, merged_client_ca(name), {"tls.crt": _joined(own, *extra)}
    )
    return merged.name, "tls.crt"


def backend_bundle(world: World, root: Object, obj: Object, name: str) -> tuple[str, str]:
    """Secret and key of the servers that a client of the installation believes."""
    given = at(obj, "caBundleSecretRef.name")
    if not given:
        return trust_name(name_of(root)), SERVER
    extra = world.secret(given, "tls.crt", "caBundleSecretRef")
    merged = _joined(server_trust(world, root), extra)
    return put_record(world, obj, merged_ca_bundle(name), {"tls.crt": merged}).name, "tls.crt"


def server_trust(world: World, root: Object) -> bytes:
    return world.secret(trust_name(name_of(root)), SERVER, "trust")


def _joined(*bundles: bytes) -> bytes:
    return b"\n".join(one.strip() for one in bundles if one.strip()) + b"\n"


def _distinct(*bundles: bytes) -> bytes:
    """All certificates of the bundles, each once."""
    end = b"-----END CERTIFICATE-----"
    parts = [part.strip() for one in bundles for part in one.split(end) if part.strip()]
    return b"".join(part + b"\n" + end + b"\n" for part in dict.fromkeys(parts))
