"""How a shard answers a front-proxy that asks where logical clusters are.

`GET /services/where?path=root:org:team` follows a path as far as the shard knows it: each step is
a Workspace, and the last step may name another shard, which knows the rest.
`GET /services/where?since=<revision>` is a stream of lines: the Workspaces and logical clusters
whose route may have changed since then.
`GET /services/where?advance=<revision>` makes sure that all later writes have newer revisions, and
answers with the revision of the shard; the one that has `root` names all shards as it knows them
then. All are for members of system:masters.
"""

from __future__ import annotations

import msgspec

WHERE = "/services/where"
MISDIRECTED = 421
ROUTED = "x-pykcp-routed"
"""In a request of a front-proxy: it has looked up the logical cluster, and will do so again if the
shard does not have it."""
NOT_HERE = "x-pykcp-not-here"
"""In the answer to such a request, with status 421: the logical cluster is not on the shard. The
value is the name of the shard that has it, if that is known. Also a trailer of a watch whose
logical cluster has moved."""
PROGRESS = "x-pykcp-progress"
"""In a watch of a front-proxy: bookmarks shall also come whenever the shard is told to advance."""
OF_ALL_SHARDS = "x-pykcp-of-all-shards"
"""In a list of a front-proxy that is part of one over all shards: it waits for logical clusters
that another shard has just given away."""
MOVED_AT = "x-pykcp-moved-at"
"""The other trailer of such a watch: it goes on at the other shard from this resource version."""


class WorkspaceStep(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """One step of a path: a Workspace in a logical cluster."""

    above: str
    """The logical cluster that holds the Workspace."""
    name: str
    cluster: str = ""
    """The logical cluster that it stands for; "" for a mount."""
    shard: str = ""
    """On which that is, as far as the Workspace says it: the name of the shard, or its hash."""
    is_available: bool = True
    mount: str = ""
    """Of a mounted workspace: where requests go instead."""


class RouteAnswer(msgspec.Struct, omit_defaults=True, frozen=True):
    shard: str
    """The shard that answers."""
    revision: int = 0
    """Of the shard when it answered: later changes may contradict the answer."""
    starts_here: bool = False
    """Whether it has the logical cluster at which the path starts."""
    steps: tuple[WorkspaceStep, ...] = ()
    cluster: str = ""
    """The logical cluster at the end of the path, if it is on this shard."""
    type: str = ""
    """The qualified name of its workspace type."""
    path: str = ""
    """The canonical path by which the start was found, if it is not the name of a cluster here:
    another shard has the Workspaces above it, or there are none."""
    start: str = ""
    """The logical cluster at that path."""
    start_type: str = ""
    is_missing: bool = False
    """Whether the next Workspace of the path does not exist: the path leads nowhere."""


class RouteChange(msgspec.Struct, omit_defaults=True, frozen=True):
    """A line of the stream."""

    revision: int
    """The stream can be resumed from here."""
    cluster: str = ""
    """Of the Workspace that changed, or the logical cluster that did."""
    workspace: str = ""
    """The name of the Workspace; "" if the logical cluster itself changed."""


class Reached(msgspec.Struct, omit_defaults=True, frozen=True):
    """How far a shard is."""

    revision: int
    shards: tuple[str, ...] = ()
    """All shards of the installation, if it has `root`."""


encode = msgspec.json.Encoder().encode
decode_answer = msgspec.json.Decoder(RouteAnswer).decode
decode_reached = msgspec.json.Decoder(Reached).decode
decode_change = msgspec.json.Decoder(RouteChange).decode
