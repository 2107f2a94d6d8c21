"""What a kcp keeps in etcd and in its root directory, with content made for a test.

The content is created on a server of this package, read back by its API, and put into the form that
kcp stores: keys `/registry/<group or core>/<resource>/…`, then `<cluster>` for built-in kinds,
`customresources/<cluster>` for kinds of a definition in the same place, and `<identity>/<cluster>`
for kinds that are bound from an export.
"""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from pykcp.auth.certificates import create_ca, issue_serving, key_pem
from pykcp.server.media import protobuf_form
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import EtcdClient
from pykcp.storage.etcd.settings import EtcdSettings
from pykcp.testing.apis import (
    BINDINGS,
    COWBOYS,
    EXPORTS,
    MAPS,
    SCHEMAS,
    SLICES,
    bind_cowboys,
    cowboy,
)
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.rights import RBAC, grant
from pykcp.testing.server import server
from pykcp.testing.workspaces import make_workspace
from pykcp.types import Object

SECRETS = "/api/v1/namespaces/default/secrets"
HATS = "/apis/shop.io/v1/namespaces/default/hats"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
_BUILT_IN = (
    *(f"/api/v1/{name}" for name in ("configmaps", "namespaces", "secrets", "serviceaccounts")),
    *(f"{RBAC}/{name}" for name in ("clusterroles", "clusterrolebindings")),
)
_LOCAL = (BINDINGS, EXPORTS, SLICES, SCHEMAS, _LOGICAL_CLUSTERS)
_FILES = (".admin-token-store", "apiserver.crt", "apiserver.key", "sa.key")
_KUBECONFIG = "admin.kubeconfig"
_CLUSTER = "kcp.io/cluster"
_PUTS_AT_ONCE = 50
_PREFIX = "/registry"


@dataclass(frozen=True, slots=True)
class StoredContent:
    """What a kcp has on its disks."""

    etcd: dict[str, bytes]
    files: dict[str, bytes]
    """Of its root directory, by name."""

    def load(self, key: str) -> Any:
        """An object that is stored as JSON."""
        return json.loads(self.etcd[key])

    def split(self, *paths: str) -> tuple[StoredContent, StoredContent]:
        """On two shards: the logical clusters of some paths are on the second one."""
        clusters = {self._clusters()[path] for path in paths}
        there = {k: v for k, v in self.etcd.items() if _cluster_in(k) in clusters}
        here = {k: v for k, v in self.etcd.items() if k not in there}
        own_key = key_pem(rsa.generate_private_key(65537, 2048))
        return (
            StoredContent(here, {**self.files, "sa.key": own_key}),
            StoredContent(there, self.files),
        )

    def _clusters(self) -> dict[str, str]:
        """The names of logical clusters, by their paths."""
        return {
            self.load(key)["metadata"]["annotations"].get("kcp.io/path", "root"): _cluster_in(key)
            for key in self.etcd
            if "/logicalclusters/customresources/" in key and "system:" not in key
        }

    async def write_etcd(self, url: str, prefix: str = _PREFIX) -> None:
        client = EtcdClient(EtcdSettings(servers=(url,)))
        puts = [
            messages.RequestOp(
                request_put=messages.PutRequest(
                    key=f"{prefix}{key.removeprefix(_PREFIX)}".encode(), value=value
                )
            )
            for key, value in self.etcd.items()
        ]
        for start in range(0, len(puts), _PUTS_AT_ONCE):
            await client.txn(messages.TxnRequest(success=puts[start : start + _PUTS_AT_ONCE]), 10.0)
        await client.close()

    def write_files(self, root: pathlib.Path) -> None:
        root.mkdir(mode=0o700)
        for name, content in self.files.items():
            (root / name).write_bytes(content)


def stored_content(directory: pathlib.Path) -> StoredContent:
    """Start a server in an empty directory, fill it, and take what it holds."""
    root = directory / ".kcp"
    root.mkdir(mode=0o700, parents=True)
    _write_keys(root)
    with server(directory=directory) as source:
        people = source.client("root", "root")
        _fill(people)
        entries = dict(_entries(source.client(cluster="*"), people.in_cluster("root:a:b")))
        kubeconfig = _with_random_token(source.kubeconfig.read_text())
    files = {name: (root / name).read_bytes() for name in _FILES}
    return StoredContent(entries, {**files, _KUBECONFIG: kubeconfig.encode()})


# --- files --------------------------------------------------------------------


def _write_keys(root: pathlib.Path) -> None:
    """As kcp makes them: RSA for tokens, and a serving certificate with an authority of its own."""
    now = time.time()
    authority = create_ca("127.0.0.1-ca", now, algorithm="rsa")
    serving = issue_serving(authority, ["127.0.0.1"], now)
    (root / "apiserver.crt").write_bytes(serving.certificate)
    (root / "apiserver.key").write_bytes(serving.key)
    (root / "sa.key").write_bytes(key_pem(rsa.generate_private_key(65537, 2048)))


def _with_random_token(kubeconfig: str) -> str:
    """kcp-admin's token cannot be computed from another one, unlike with this package's server."""
    config = yaml.safe_load(kubeconfig)
    (user,) = [one["user"] for one in config["users"] if one["name"] == "kcp-admin"]
    user["token"] = str(uuid.uuid4())
    return yaml.safe_dump(config)


# --- content ------------------------------------------------------------------


def _fill(root: TestClient) -> None:
    _create(
        root,
        _TYPES,
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "WorkspaceType",
            "metadata": {"name": "special"},
            "spec": {"extend": {"with": [{"name": "universal", "path": "root"}]}},
        },
    )
    make_workspace(root, "typed", type={"name": "special", "path": "root"})
    for name in ("a", "consumer", "wildwest-provider"):
        make_workspace(root, name)
    make_workspace(root.in_cluster("root:a"), "b")
    consumer = root.in_cluster("root:consumer")
    bind_cowboys(root.in_cluster("root:wildwest-provider"), consumer)
    _create(consumer, COWBOYS, cowboy("john-wayne"))
    team = root.in_cluster("root:a:b")
    data = {"k": "v", "u": "ä"}
    _create(team, MAPS, {"metadata": {"name": "settings", "labels": {"app": "x"}}, "data": data})
    _create(team, SECRETS, {"metadata": {"name": "s"}, "stringData": {"word": "hidden"}})
    _add_hats(team)
    _add_robot(team)


def _create(client: TestClient, path: str, body: Object) -> None:
    made = client.post(path, body)
    assert made.status == 201, made


def _add_hats(team: TestClient) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".size"}],
    }
    spec = {
        "group": "shop.io",
        "scope": "Namespaced",
        "names": {"plural": "hats", "singular": "hat", "kind": "Hat", "listKind": "HatList"},
        "versions": [version],
    }
    _create(team, _DEFINITIONS, {"metadata": {"name": "hats.shop.io"}, "spec": spec})
    eventually(lambda: team.get(HATS).status == 200)
    hat = {"apiVersion": "shop.io/v1", "kind": "Hat", "metadata": {"name": "h"}, "size": 5}
    _create(team, HATS, hat)


def _add_robot(team: TestClient) -> None:
    """A service account that may read ConfigMaps, and a token of it."""
    _create(team, _ACCOUNTS, {"metadata": {"name": "robot"}})
    annotations = {"kubernetes.io/service-account.name": "robot"}
    metadata = {"name": "robot-token", "annotations": annotations}
    kind = "kubernetes.io/service-account-token"
    _create(team, SECRETS, {"metadata": metadata, "type": kind})
    eventually(lambda: "token" in (team.get(f"{SECRETS}/robot-token").json.get("data") or {}))
    grant(team, "system:serviceaccount:default:robot", "get", "configmaps", "")


# --- keys and values ----------------------------------------------------------


def _entries(everywhere: TestClient, team: TestClient) -> Iterator[tuple[str, bytes]]:
    """Everything that is stored. Objects of hats are only in the team's workspace."""
    for path in _BUILT_IN:
        for cluster, obj in _items(everywhere, path):
            yield _key(path, "", cluster, obj), protobuf_form.encode(obj)
    for cluster, obj in _items(everywhere, _DEFINITIONS):
        yield _key(_DEFINITIONS, "", cluster, obj), _json(_old_definition(obj))
    for path in _LOCAL:
        for cluster, obj in _items(everywhere, path):
            yield _key(path, "customresources", cluster, obj), _json(obj)
    for cluster, obj in _items(team, "/apis/shop.io/v1/hats"):
        yield _key("/apis/shop.io/v1/hats", "customresources", cluster, obj), _json(obj)
    for path, identity in _bound_kinds(everywhere):
        for cluster, obj in _items(everywhere, f"{path}:{identity}"):
            yield _key(path, identity, cluster, obj), _json(obj)


def _bound_kinds(everywhere: TestClient) -> Iterator[tuple[str, str]]:
    """Paths of the kinds that are used from an export, and the identity of that export."""
    identities = {
        (resource["group"], resource["name"]): export["status"]["identityHash"]
        for export in everywhere.get(EXPORTS).json["items"]
        for resource in export["spec"]["resources"]
    }
    for path in (
        "/apis/tenancy.kcp.io/v1alpha1/workspaces",
        _TYPES,
        "/apis/core.kcp.io/v1alpha1/shards",
        "/apis/wild.west/v1/cowboys",
    ):
        _, _, group, _, resource = path.split("/")
        yield path, identities[group, resource]


def _items(client: TestClient, path: str) -> list[tuple[str, Object]]:
    """Logical clusters and objects, without what is only added to an answer."""
    listed = client.get(path)
    assert listed.status == 200, (path, listed)
    page, found = listed.json, []
    for item in page["items"]:
        kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        obj: Object = {**kind, **item}
        del obj["metadata"]["resourceVersion"]
        found.append((obj["metadata"]["annotations"].pop(_CLUSTER), obj))
    return found


def _key(path: str, middle: str, cluster: str, obj: Object) -> str:
    words = path.split("/")
    group = words[2] if words[1] == "apis" else "core"
    metadata = obj["metadata"]
    place = (middle, cluster, metadata.get("namespace") or "", metadata["name"])
    return "/".join((_PREFIX, group, words[-1], *filter(None, place)))


def _cluster_in(key: str) -> str:
    words = key.split("/")
    is_custom = words[4] == "customresources" or len(words[4]) == 64
    return words[5] if is_custom else words[4]


def _json(obj: Object) -> bytes:
    return json.dumps(obj).encode()


def _old_definition(obj: Object) -> Object:
    """A CustomResourceDefinition as v1beta1, which kcp stores: what all versions share is above."""
    spec = dict(obj["spec"])
    versions = [_old_version(version) for version in spec["versions"]]
    spec["version"] = versions[0]["name"]
    for above, name in (
        ("validation", "schema"),
        ("subresources", "subresources"),
        ("additionalPrinterColumns", "additionalPrinterColumns"),
    ):
        if name in versions[0] and all(one.get(name) == versions[0][name] for one in versions):
            spec[above] = versions[0][name]
            for version in versions:
                del version[name]
    return {
        **obj,
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "spec": {**spec, "versions": versions, "preserveUnknownFields": False},
    }


def _old_version(version: Object) -> Object:
    columns = [dict(column) for column in version.get("additionalPrinterColumns") or ()]
    for column in columns:
        column["JSONPath"] = column.pop("jsonPath")
    return {**version, **({"additionalPrinterColumns": columns} if columns else {})}
