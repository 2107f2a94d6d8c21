"""`kubectl kcp pull-crds`: the resources of a cluster as CRDs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_yaml import dump
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.machinery.negotiation.openapi import Unconvertible, models_of
from pykcp.machinery.negotiation.resource import (
    ImportedResource,
    crd_of,
    imported_schema,
    listed_resources,
)

Object = dict[str, Any]
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pull_crds(invocation: CommandInvocation) -> None:
    wanted, is_all = set(invocation.arguments), invocation["all"]
    if bool(wanted) == is_all:
        raise PluginError("name resources, for example deployments.apps, or use --all")
    cluster = _Cluster(Session(invocation).client)
    chosen = [r for r in cluster.resources() if is_all or wanted & {r.name, r.plural}]
    missing = wanted - {r.name for r in chosen} - {r.plural for r in chosen}
    if missing:
        raise PluginError(f"the server has no resource {', '.join(sorted(missing))}")
    failures = 0
    for resource in chosen:
        try:
            definition = crd_of(resource, cluster.schema(resource))
        except Unconvertible as error:
            print(f"{resource.name}: skipped: {error}", file=sys.stderr)
            failures += 1
            continue
        _write(definition, invocation["output-dir"])
    if failures and not is_all:
        raise PluginError(f"{failures} of {len(chosen)} resources cannot be described by a CRD")


def _write(definition: Object, folder: str) -> None:
    text = dump(definition)
    if not folder:
        print(f"{text}---")
        return
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{definition['metadata']['name']}.yaml"), "w") as file:
        file.write(text)


class _Cluster:
    """What a cluster says about its resources."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self._prefix = client.path_prefix
        self._crds: dict[str, Object] | None = None
        self._documents: Mapping[str, Object] | None = None
        self._models: dict[str, Mapping[str, Object]] = {}

    def resources(self) -> Iterator[ImportedResource]:
        """Every resource in its preferred version, if it can be listed and watched."""
        yield from self._of_version("", "v1", "/api/v1")
        for group in self._get("/apis").get("groups") or ():
            version = (group.get("preferredVersion") or group["versions"][0])["version"]
            name = group["name"]
            yield from self._of_version(name, version, f"/apis/{name}/{version}")

    def _of_version(self, group: str, version: str, path: str) -> Iterable[ImportedResource]:
        return listed_resources(group, version, self._get(path))

    def schema(self, resource: ImportedResource) -> Object:
        """The schema of a resource. Raises Unconvertible."""
        if self._crds is None:
            items = self._get(_CRDS).get("items") or ()
            self._crds = {crd["metadata"]["name"]: crd for crd in items}
        crd = self._crds.get(f"{resource.plural}.{resource.group}")
        models = {} if crd is not None else self._models_of(resource)
        return imported_schema(resource, crd, models)

    def _models_of(self, resource: ImportedResource) -> Mapping[str, Object]:
        group, version = resource.group, resource.version
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        found = self._models.get(path)
        if found is None:
            found = self._models[path] = self._read_models(path)
        return found

    def _read_models(self, path: str) -> Mapping[str, Object]:
        if self._documents is None:
            self._documents = self._index()
        entry = self._documents.get(path)
        if entry is not None:
            url = entry["serverRelativeURL"]
            is_whole = self._prefix and url.startswith(f"{self._prefix}/")
            return models_of(self._client.get(url) if is_whole else self._get(url))
        return models_of(self._get("/openapi/v2"))  # servers before 1.24

    def _index(self) -> Mapping[str, Object]:
        try:
            paths: Mapping[str, Object] = self._get("/openapi/v3").get("paths") or {}
        except PluginError:
            return {}
        return paths

    def _get(self, path: str) -> Any:
        return self._client.get(self._prefix + path)
