"""`kubectl ws backup`, `restore` and `clone`: workspaces with everything below them.

Only pykcp has them. A backup is a file of JSON lines, compressed: the tree, then pages of content.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import resolve
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_FORMAT = "pykcp workspace backup 1"
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 500, 1 << 20


def backup(invocation: CommandInvocation) -> None:
    """Save a workspace and all below it to a file."""
    if len(invocation.arguments) != 1 or not invocation["output"]:
        raise WantsHelp
    session = Session(invocation)
    path = _path(session, invocation.arguments[0])
    service = f"/services/copies/clusters/{path}"
    tree = session.client.get(f"{service}/tree", about=path)
    target = invocation["output"]
    part = f"{target}.part"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # secrets
        with gzip.open(os.fdopen(descriptor, "wb"), "wt") as out:
            count = 0
            head = ({"format": _FORMAT}, {"tree": tree})
            for record in chain(head, _pages(session, service, tree)):
                count += len(record.get("rows") or ())
                out.write(json.dumps(record) + "\n")
            out.write(json.dumps({"end": count}) + "\n")
        os.replace(part, target)
    except OSError as error:
        raise PluginError(f"cannot write {target}: {error.strerror}") from error
    print(f"Workspace {quote(path)} saved to {target}: {_counted(tree, count)}.")


def _pages(session: Session, service: str, tree: Object) -> Iterator[Object]:
    for cluster in tree["clusters"]:
        after = ""
        # Those on other shards are asked for by their own names, which the front-proxy knows.
        is_elsewhere = cluster in (tree.get("shards") or {})
        place = f"/services/copies/clusters/{cluster}" if is_elsewhere else service
        while True:
            query = urlencode({"cluster": cluster, "at": tree["revision"], "after": after})
            page = session.client.get(f"{place}/rows?{query}", about=cluster)
            yield {"rows": page["rows"]}
            after = page["next"]
            if not after:
                break


def restore(invocation: CommandInvocation) -> None:
    """Create a workspace from a file."""
    if len(invocation.arguments) > 1 or not invocation["filename"]:
        raise WantsHelp
    session = Session(invocation)
    lines = _lines(invocation["filename"])
    tree = next(lines)["tree"]
    given = "".join(invocation.arguments)
    path = _path(session, given) if given else tree["path"]
    parent, name = clusters.split(path)
    service = f"/services/copies/clusters/{parent}"
    begun = session.client.request(
        "POST",
        f"{service}/begin",
        {"name": name, "tree": tree, "isNew": invocation["new-names"]},
        about=path,
    )
    count = 0
    for line in lines:
        for rows in _chunks(line.get("rows") or []):
            body = {"copy": begun["copy"], "rows": rows}
            count += session.client.request("POST", f"{service}/add", body, about=path)["objects"]
    session.client.request("POST", f"{service}/finish", {"copy": begun["copy"]}, about=path)
    print(f"Workspace {quote(path)} restored: {_counted(tree, count)}.")


def _lines(file: str) -> Iterator[Object]:
    """The tree, then pages of rows; the file is read to its end once before anything is written."""
    try:
        with gzip.open(file, "rt") as source:
            first, rows, last = json.loads(source.readline()), 0, {}
            for line in source:
                last = json.loads(line)
                rows += len(last.get("rows") or ())
        if first.get("format") != _FORMAT:
            raise PluginError(f"{file} is not a backup of a workspace that this program knows")
        if last.get("end") != rows:
            raise PluginError(f"{file} is not complete")
        with gzip.open(file, "rt") as source:
            source.readline()
            yield from map(json.loads, source)
    except (OSError, EOFError, ValueError) as error:
        raise PluginError(f"cannot read {file}: {error}") from error


def _chunks(rows: list[Any]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    size = 0
    for row in rows:
        length = len(json.dumps(row))
        if chunk and (len(chunk) >= _ROWS_AT_ONCE or size + length > _BYTES_AT_ONCE):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


def clone(invocation: CommandInvocation) -> None:
    """Copy a workspace and all below it."""
    if len(invocation.arguments) != 2:
        raise WantsHelp
    session = Session(invocation)
    source, path = (_path(session, one) for one in invocation.arguments)
    parent, name = clusters.split(path)
    body = {"name": name, **_source(session, source)}
    address = f"/services/copies/clusters/{parent}/clone"
    made = session.client.request("POST", address, body, about=source)
    print(
        f"Workspace {quote(source)} cloned to {quote(path)}: {made['workspaces']} workspaces,"
        f" logical cluster {made['cluster']}."
    )


def _source(session: Session, path: str) -> Object:
    """What is cloned: its logical cluster, and the shard that has it."""
    where = f"/clusters/{path}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    metadata = session.client.get(where, about=path)["metadata"]
    annotations = metadata.get("annotations") or {}
    shard = annotations.get("core.kcp.io/shard") or ""
    return {"source": annotations.get("kcp.io/cluster") or path, "shard": shard}


def _path(session: Session, given: str) -> str:
    path = resolve(session.current(), given.replace("/", ":"))
    if not clusters.split(path)[0] or not clusters.is_valid_path(path):
        raise PluginError(f"invalid workspace path: {given}")
    return path


def _counted(tree: Object, count: int) -> str:
    return f"{len(tree['clusters'])} workspaces, {count} objects"
