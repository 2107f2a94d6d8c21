"""Schemas small enough to read: two built-in kinds in part, and one custom resource."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.schema.model import Schema

TEXT = Schema(type="string")
NUMBER = Schema(type="integer")


def struct(ref: str = "", /, **fields: Schema) -> Schema:
    """An object with these fields."""
    return Schema(type="object", ref=ref, properties=fields)


def listed(items: Schema, **more: Any) -> Schema:
    return Schema(type="array", items=items, **more)


def mapped(values: Schema, **more: Any) -> Schema:
    return Schema(type="object", additional=values, **more)


def object_meta() -> Schema:
    owner = struct(
        apiVersion=TEXT, kind=TEXT, name=TEXT, uid=TEXT,
        controller=Schema(type="boolean"), blockOwnerDeletion=Schema(type="boolean"),
    )  # fmt: skip
    owner.map_type = "atomic"
    return struct(
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        name=TEXT,
        namespace=TEXT,
        uid=TEXT,
        resourceVersion=TEXT,
        generation=NUMBER,
        creationTimestamp=Schema(type="string", format="date-time"),
        labels=mapped(TEXT),
        annotations=mapped(TEXT),
        finalizers=listed(TEXT, list_type="set", patch_strategy="merge"),
        ownerReferences=listed(
            owner, list_type="map", list_keys=("uid",),
            patch_strategy="merge", patch_merge_key="uid",
        ),
        managedFields=listed(Schema(type="object"), list_type="atomic"),
    )  # fmt: skip


def _kind(ref: str, /, **fields: Schema) -> Schema:
    return struct(ref, apiVersion=TEXT, kind=TEXT, metadata=object_meta(), **fields)


@pytest.fixture(scope="session")
def config_map() -> Schema:
    return _kind(
        "io.k8s.api.core.v1.ConfigMap",
        data=mapped(TEXT),
        binaryData=mapped(Schema(type="string", format="byte")),
        immutable=Schema(type="boolean"),
    )


@pytest.fixture(scope="session")
def deployment() -> Schema:
    """As much of a Deployment as shows every strategy."""
    port = struct(
        containerPort=NUMBER, name=TEXT,
        protocol=Schema(type="string", default="TCP", has_default=True),
    )  # fmt: skip
    env = struct(name=TEXT, value=TEXT)
    container = struct(
        "io.k8s.api.core.v1.Container",
        name=TEXT,
        image=TEXT,
        args=listed(TEXT, list_type="atomic"),
        env=listed(
            env, list_type="map", list_keys=("name",),
            patch_strategy="merge", patch_merge_key="name",
        ),
        ports=listed(
            port, list_type="map", list_keys=("containerPort", "protocol"),
            patch_strategy="merge", patch_merge_key="containerPort",
        ),
        resources=struct(limits=mapped(Schema(type="string", format="quantity"))),
    )  # fmt: skip
    volume = struct(
        name=TEXT, emptyDir=struct(medium=TEXT), hostPath=struct(path=TEXT),
    )  # fmt: skip
    pod = struct(
        "io.k8s.api.core.v1.PodSpec",
        containers=listed(
            container, list_type="map", list_keys=("name",),
            patch_strategy="merge", patch_merge_key="name",
        ),
        volumes=listed(
            volume, list_type="map", list_keys=("name",),
            patch_strategy="merge,retainKeys", patch_merge_key="name",
        ),
        nodeSelector=mapped(TEXT, map_type="atomic"),
        restartPolicy=TEXT,
    )  # fmt: skip
    strategy = struct(type=TEXT, rollingUpdate=struct(maxSurge=Schema(format="int-or-string")))
    strategy.patch_strategy = "retainKeys"
    selector = struct(matchLabels=mapped(TEXT))
    selector.map_type = "atomic"
    template = struct(metadata=object_meta(), spec=pod)
    spec = struct(
        replicas=NUMBER, selector=selector, strategy=strategy,
        template=template, matrix=listed(listed(TEXT)),
    )  # fmt: skip
    return _kind(
        "io.k8s.api.apps.v1.Deployment",
        spec=spec,
        status=struct(replicas=NUMBER),
    )


@pytest.fixture(scope="session")
def fields(thing: Schema) -> FieldManager:
    """The manager of that custom resource."""
    return FieldManager(thing, "g/v1", "Thing")


@pytest.fixture(scope="session")
def thing() -> Schema:
    """A custom resource with every kind of list and map."""
    item = struct(
        name=TEXT,
        port=Schema(type="integer", default=80, has_default=True),
        v=TEXT,
        deep=struct(a=TEXT, b=TEXT),
    )
    sealed = struct(a=TEXT, b=TEXT)
    sealed.map_type = "atomic"
    condition = struct(type=TEXT, status=TEXT)
    return _kind(
        "",
        spec=struct(
            n=NUMBER,
            s=TEXT,
            set=listed(TEXT, list_type="set"),
            atomic=listed(TEXT, list_type="atomic"),
            plain=listed(TEXT),
            map=listed(item, list_type="map", list_keys=("name", "port")),
            nested=struct(a=TEXT, b=TEXT),
            sealed=sealed,
            extra=mapped(TEXT),
            free=Schema(type="object", preserve_unknown=True),
            any=Schema(int_or_string=True),
        ),
        status=struct(
            phase=TEXT,
            conditions=listed(condition, list_type="map", list_keys=("type",)),
        ),
    )
