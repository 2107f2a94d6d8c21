"""Which resource a word means: plural, singular and short names, with or without a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.errors import PluginError


class NamedResource(NamedTuple):
    group: str
    plural: str
    is_namespaced: bool = True


def find_resource(client: RestClient, word: str) -> NamedResource:
    """As discovery knows it; the word itself if the user may not read discovery."""
    name, _, group = word.partition(".")
    wanted = name.lower()
    try:
        for found, words in _resources(client, group):
            if wanted in words:
                return found
    except PluginError:
        pass  # without discovery, the word is taken as it is
    return NamedResource("" if group == "core" else group, name)


def _resources(client: RestClient, group: str) -> Iterator[tuple[NamedResource, set[str]]]:
    prefix = client.path_prefix
    if group in ("", "core"):
        yield from _of_version(client, f"{prefix}/api/v1", "")
        if group:
            return
    for one in client.discover(f"{prefix}/apis")["groups"]:
        if group in ("", one["name"]):
            version = one["preferredVersion"]["groupVersion"]
            yield from _of_version(client, f"{prefix}/apis/{version}", one["name"])


def _of_version(
    client: RestClient, path: str, group: str
) -> Iterator[tuple[NamedResource, set[str]]]:
    for one in client.discover(path)["resources"]:
        words = {one["name"], one.get("singularName") or "", *(one.get("shortNames") or ())}
        yield NamedResource(group, one["name"], one["namespaced"]), words - {""}
