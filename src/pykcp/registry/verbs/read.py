"""Get and list: bytes out of the store, decoded only when nothing else will do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykcp.aio.slices import Slices
from pykcp.machinery.status import Expired, NotFound
from pykcp.registry.codec import cluster_of
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import too_large_revision, translate
from pykcp.registry.keys import all_identities_ranges, is_wildcard, range_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.continuing import WHATEVER_IS_NOW, encode_token
from pykcp.registry.verbs.object_parts import ObjectParts
from pykcp.registry.watch.selection import EVERYTHING, Selection
from pykcp.storage.errors import Compacted, StoreError
from pykcp.storage.interface import Entry, Page, Query


def find(resource: Resource, ctx: RequestContext, namespace: str, name: str) -> Entry:
    """The stored entry, or NotFound."""
    entry = resource.entry(ctx.cluster, namespace, name)
    if entry is None:
        raise NotFound.resource(resource.group, resource.plural, name)
    return entry


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list, parsed and checked."""

    selection: Selection = EVERYTHING
    limit: int = 0
    after: str = ""
    """A key to go on from, out of a continue token."""
    at: int = 0
    """The revision to read at; 0: now."""
    not_older_than: int = 0
    is_continued: bool = False
    is_exact: bool = False
    """`at` was asked for: without that, one object by its name is shown as it is now."""


@dataclass(frozen=True, slots=True)
class Listing:
    values: list[bytes]
    revision: int
    continue_token: str
    remaining: int | None
    next_after: str = ""
    """The key after which there may be more."""
    version: str = ""
    """What clients get as the resource version, if that is not the revision."""


async def list_objects(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    options: ListOptions,
    max_bytes: int = 0,
) -> Listing:
    store = resource.services.store
    if options.not_older_than > store.revision:
        raise too_large_revision(options.not_older_than, store.revision)
    selection = options.selection
    namespace = _listed_namespace(resource, ctx.cluster, namespace, selection)
    is_placed = not is_wildcard(ctx.cluster) and (namespace or not resource.namespaced)
    if selection.name and is_placed and not options.is_continued:
        if options.is_exact:
            return await _list_one_at(resource, ctx, namespace, options)
        return await _converted(resource, _list_one(resource, ctx, namespace, selection))
    if resource.all_identities:
        return await _list_all_identities(resource, options)
    prefix = range_prefix(resource.prefix, ctx.cluster, namespace)
    query = Query(
        prefix=prefix,
        after=options.after,
        limit=options.limit,
        at=options.at,
        where=selection.conditions,
        residual=selection.residual,
        count_remaining=options.limit > 0 and selection.selects_all,
        max_bytes=max_bytes,
    )
    base = token_base(resource, ctx.cluster, namespace, selection)
    try:
        page = await store.list(query)
    except Compacted as error:
        raise _expired(base, options, store.revision) from error
    except StoreError as error:
        raise translate(error) from error
    listing = _listing(page, base, options)
    if is_wildcard(ctx.cluster):
        listing = await _without_departed(resource, listing)
    return await _converted(resource, listing)


def token_base(resource: Resource, cluster: str, namespace: str, selection: Selection) -> str:
    """The part of a key that continue tokens leave out: what all keys of the list begin with.

    As upstream, the token of a list of objects without a namespace contains only a name.
    """
    listed = _listed_namespace(resource, cluster, namespace, selection)
    prefix = range_prefix(resource.prefix, cluster, listed)
    return prefix if resource.namespaced or is_wildcard(cluster) else f"{prefix}/"


def _listed_namespace(
    resource: Resource, cluster: str, namespace: str, selection: Selection
) -> str:
    """The namespace of the URL, or that of the field selector."""
    if not resource.namespaced:
        return ""
    return namespace or ("" if is_wildcard(cluster) else selection.namespace)


class Pager:
    """A list, some of it at a time, all as it was at one revision.

    What comes in one piece all the same: one object by its name, a resource in all its
    identities, and what a webhook converts.
    """

    def __init__(
        self,
        resource: Resource,
        ctx: RequestContext,
        namespace: str,
        options: ListOptions,
        page_bytes: int = 0,
    ) -> None:
        self._page_bytes = page_bytes or PAGE_BYTES
        self._resource, self._ctx, self._namespace = resource, ctx, namespace
        self._options = options
        self._left = options.limit
        self.is_done = False

    async def next(self) -> Listing:
        """Some more; the last of it says where another list could go on."""
        options = self._options
        if self._resource.all_identities or self._resource.webhook is not None:
            self.is_done = True
            return await list_objects(self._resource, self._ctx, self._namespace, options)
        asked = replace(options, limit=self._left)
        listing = await list_objects(
            self._resource, self._ctx, self._namespace, asked, max_bytes=self._page_bytes
        )
        if options.limit:
            self._left -= len(listing.values)
        self.is_done = not listing.next_after or (options.limit > 0 and self._left <= 0)
        if self.is_done:
            return listing
        self._options = replace(
            options, after=listing.next_after, at=listing.revision, not_older_than=0
        )
        return replace(listing, continue_token="", remaining=None)


PAGE_BYTES = 2 * 1024 * 1024


async def _list_all_identities(resource: Resource, options: ListOptions) -> Listing:
    """A resource in all its identities. It lies in two places, so it comes in one piece."""
    values: list[bytes] = []
    selection, at = options.selection, options.at
    for prefix in all_identities_ranges(resource.all_identities):
        query = Query(prefix, at=at, where=selection.conditions, residual=selection.residual)
        try:
            page = await resource.services.store.list(query)
        except Compacted as error:
            raise _expired(prefix, options, resource.services.store.revision) from error
        except StoreError as error:
            raise translate(error) from error
        at = at or page.revision
        values += page.values
    return await _without_departed(resource, Listing(values, at, "", None))


async def _without_departed(resource: Resource, listing: Listing) -> Listing:
    """Without what logical clusters have left here that are on another shard now."""
    moves = resource.services.moves
    hidden = moves.hidden_at(listing.revision) if moves is not None else ()
    if not hidden:
        return listing
    values, slices = list[bytes](), Slices()
    for value in listing.values:
        if cluster_of(value) not in hidden:
            values.append(value)
        if slices.is_over():
            await slices.next()
    return replace(listing, values=values)


async def _converted(resource: Resource, listing: Listing) -> Listing:
    if resource.webhook is None:
        return listing
    return replace(listing, values=await resource.webhook.from_storage(listing.values))


def _list_one(
    resource: Resource, ctx: RequestContext, namespace: str, selection: Selection
) -> Listing:
    store = resource.services.store
    entry = store.get(resource.key(ctx.cluster, namespace, selection.name))
    revision = max(store.revision, entry.revision if entry else 0)
    matches = selection.matcher()
    values = [entry.value] if entry and (matches is None or matches(entry.terms)) else []
    return Listing(values, revision, "", None)


async def _list_one_at(
    resource: Resource, ctx: RequestContext, namespace: str, options: ListOptions
) -> Listing:
    """The same as of a revision."""
    store, selection = resource.services.store, options.selection
    key = resource.key(ctx.cluster, namespace, selection.name)
    # Its key comes first of those that begin with it.
    query = Query(
        key, limit=1, at=options.at, where=selection.conditions, residual=selection.residual
    )
    try:
        page = await store.list(query)
    except Compacted as error:
        raise _expired(key, options, store.revision) from error
    except StoreError as error:
        raise translate(error) from error
    values = [v for v in page.values if ObjectParts(v).metadata["name"] == selection.name]
    return await _converted(resource, Listing(values, options.at, "", None))


def _listing(page: Page, base: str, options: ListOptions) -> Listing:
    revision = options.at or page.revision
    token = encode_token(revision, page.next_after[len(base) :]) if page.next_after else ""
    remaining = page.remaining if token else None
    return Listing(page.values, revision, token, remaining, page.next_after)


def _expired(base: str, options: ListOptions, revision: int) -> Expired:
    if not options.is_continued:
        return Expired("The resourceVersion for the provided list is too old.", details=False)
    token = encode_token(WHATEVER_IS_NOW, options.after[len(base) :])
    error = Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned "
        "and now may show up in the list.",
        details=False,
    )
    error.continue_token = token
    return error
