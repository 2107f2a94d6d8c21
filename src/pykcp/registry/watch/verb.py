"""Watch: catch up from a revision (or from a list), then follow the hub."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from pykcp.aio.resting import ShortSlices
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import Expired, StatusError
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.keys import (
    ALL_IDENTITIES,
    PREFIX_ENDS,
    all_identities_ranges,
    is_wildcard,
    range_prefix,
)
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.large_work import ObjectShape
from pykcp.registry.verbs.read import ListOptions, Pager
from pykcp.registry.watch.converting import ConvertingSink, RawEncoder
from pykcp.registry.watch.deferring import DeferringEncoder, DeferringSink, elsewhere, line_of
from pykcp.registry.watch.joining import last_joined
from pykcp.registry.watch.selection import EVERYTHING, Selection
from pykcp.registry.watch.watchers import EventEncoder, Sink, Watcher, WatchGroup, departed
from pykcp.storage.errors import Compacted, StoreError
from pykcp.storage.interface import Event, History, Store
from pykcp.types import Object

_PAGE = 500
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    selection: Selection = EVERYTHING
    since: int = 0
    """Follow from this revision; with `sends_initial`, begin with the current state."""
    sends_initial: bool = False
    marks_initial_end: bool = False
    """Streaming lists: a bookmark says where the initial state ends."""
    wants_bookmarks: bool = False
    wants_progress: bool = False
    """Bookmarks also whenever the progress of the store is reported."""
    timeout: float = 1800.0


class JSONEncoder:
    """Events as lines of JSON, from stored bytes."""

    decodes = False
    """Whether all events are made of decoded objects."""

    def __init__(self, resource: Resource, shape: ObjectShape | None = None) -> None:
        self.form: object = resource.form
        self._resource = resource
        self._shape = shape or ObjectShape(is_plain=resource.is_plain)
        self.can_wait = resource.has_workers

    @property
    def shared(self) -> object:
        return self._shape, self._resource.form, self._resource.since

    def event(self, kind: str, event: Event) -> bytes:
        memo = event.memo
        if memo is None:
            memo = event.memo = {}
        key = (kind, self.form)
        data = memo.get(key)
        if data is None:
            data = memo[key] = self.initial(kind, event.value)
        return data

    def initial(self, kind: str, value: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._resource.served(value))

    async def text_elsewhere(self, kind: str, value: bytes) -> bytes:
        """The text of the object, by a worker process."""
        resource = self._resource
        work, tenant = resource.services.large, resource.definition.origin
        assert work is not None
        return (await work.shown(resource, tenant, self._shape, (value,)))[0]

    def with_text(self, kind: str, value: bytes, text: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), text)

    def of(self, kind: str, obj: Object) -> bytes:
        """The event of an object that is not stored."""
        return orjson.dumps({"type": kind, "object": obj}) + b"\n"

    def of_bookmark(self, metadata: Object) -> bytes:
        """A bookmark with a version that is not a revision of the store."""
        head = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return self.of("BOOKMARK", {**head, "metadata": metadata})

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return bookmark_line(self._resource, revision, is_initial_end=is_initial_end)


def bookmark_line(resource: Resource, revision: int, *, is_initial_end: bool) -> bytes:
    marks = b',"annotations":{"%b":"true"}' % INITIAL_EVENTS_END.encode() if is_initial_end else b""
    return b'{"type":"BOOKMARK","object":%b"metadata":{"resourceVersion":"%d"%b}}}\n' % (
        resource.type_prefix,
        revision,
        marks,
    )


def error_line(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(error.to_json())


async def watch(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    options: WatchOptions,
    sink: Sink,
    encoder: JSONEncoder,
) -> Watcher:
    """Write everything up to now to the sink, then leave it with the hub."""
    store = resource.services.store
    since = options.since
    if options.sends_initial:
        since = await _send_initial(resource, ctx, namespace, options, sink, encoder)
    prefix, key = _scope(resource, ctx, namespace, options.selection)
    events: EventEncoder = encoder
    if resource.webhook is not None:
        sink, events = ConvertingSink(sink, encoder, resource.webhook), RawEncoder(encoder)
    elif encoder.can_wait and (encoder.decodes or resource.conversion is not None):
        sink, events = DeferringSink(sink, encoder), DeferringEncoder(encoder)
    watcher = Watcher(
        sink,
        since,
        wants_bookmarks=options.wants_bookmarks,
        wants_progress=options.wants_progress,
    )
    matches = options.selection.matcher()
    group = WatchGroup(prefix, key, matches, events, resource.services.hub.hidden_from(watcher))
    try:
        slices = ShortSlices()
        while True:
            if not options.sends_initial:
                _check_since(since, _oldest(store, prefix, options))
            if watcher.since >= store.revision or sink.closed:
                break
            await _catch_up(resource, group, watcher, encoder, slices)
    except StoreError as error:
        status = translate(error)
        if isinstance(status, Expired):
            sink.write(error_line(status))
            watcher.is_open = False
            sink.end()
            return watcher
        raise status from error
    if not sink.closed:
        resource.services.hub.open(prefix, key, matches, events, watcher, options.timeout)
    return watcher


def _oldest(store: Store, prefix: str, options: WatchOptions) -> int:
    """The revision from which on a watch misses nothing."""
    oldest = store.complete_since(prefix)
    return max(oldest, last_joined(store)) if options.wants_progress else oldest


def _check_since(since: int, oldest: int) -> None:
    if since < oldest:
        raise Compacted(since, oldest)


def _scope(
    resource: Resource, ctx: RequestContext, namespace: str, selection: Selection
) -> tuple[str, object]:
    """The narrowest prefix to watch, and a key that identifies the selection."""
    if not resource.namespaced:
        namespace = ""
    elif not namespace and not is_wildcard(ctx.cluster):
        namespace = selection.namespace
    if selection.name and not is_wildcard(ctx.cluster) and (namespace or not resource.namespaced):
        return resource.key(ctx.cluster, namespace, selection.name), selection.key
    prefix = resource.all_identities or range_prefix(resource.prefix, ctx.cluster, namespace)
    return prefix, selection.key


async def _catch_up(
    resource: Resource,
    group: WatchGroup,
    watcher: Watcher,
    encoder: JSONEncoder,
    slices: ShortSlices,
) -> None:
    """One page of what happened since; the caller goes on until there is nothing left."""
    store = resource.services.store
    until = store.revision
    events, reached = await _history(store, group.prefix, watcher.since, until)
    is_exact = not group.prefix.endswith(PREFIX_ENDS)
    for event in events:
        if slices.is_over():
            await slices.rest()
        if is_exact and event.key != group.prefix:
            continue
        kind = group.kind_of(event)
        if kind is None:
            continue
        seen = departed(store, event) if kind == "DELETED" and not event.deleted else event
        try:
            with bounded(encoder.can_wait):
                line = group.encoder.event(kind, seen)
        except Outgrown:  # it is of an earlier schema
            line = await elsewhere(encoder, kind, seen.value)
        watcher.sink.write(line)
    watcher.since = reached
    if watcher.sink.backlog > _DRAIN_ABOVE:
        await _drain(watcher.sink)


async def _history(store: Store, prefix: str, after: int, until: int) -> History:
    """Some of what happened below a prefix, and up to which revision that is all."""
    ranges = all_identities_ranges(prefix) if prefix.endswith(ALL_IDENTITIES) else (prefix,)
    found = [await store.history(each, after, until, _PAGE) for each in ranges]
    if len(found) == 1:
        return found[0]
    reached = min(each.reached for each in found)
    events = [event for each in found for event in each.events if event.revision <= reached]
    return History(sorted(events, key=lambda event: event.revision), reached)


_DRAIN_ABOVE = 256 * 1024


async def _drain(sink: Sink) -> None:
    drain = getattr(sink, "drain", None)
    if drain is not None:
        await drain()


async def _send_initial(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    options: WatchOptions,
    sink: Sink,
    encoder: JSONEncoder,
) -> int:
    """The current state as ADDED events; returns the revision it stands for."""
    asked = ListOptions(options.selection, not_older_than=options.since)
    pager, slices = Pager(resource, ctx, namespace, asked, _PAGE_BYTES), ShortSlices()
    is_quick = resource.is_shown_as_stored and not encoder.decodes
    while True:
        listing = await pager.next()
        for value in listing.values:
            if is_quick:
                sink.write(encoder.initial("ADDED", value))
            else:
                sink.write(await line_of(encoder, "ADDED", value))
            if slices.is_over():
                await slices.rest()
            if sink.backlog > _DRAIN_ABOVE:
                await _drain(sink)
            if sink.closed:
                return listing.revision
        if pager.is_done:
            break
    if options.marks_initial_end:
        sink.write(encoder.bookmark(listing.revision, is_initial_end=True))
    return listing.revision


_PAGE_BYTES = 256 * 1024
