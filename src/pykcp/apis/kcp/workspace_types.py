"""Effects of a WorkspaceType: inheritance, initializers, terminators, bindings, allowed types. Pure.

Types are plain objects; `Find` looks one up by the path (or cluster name) of the workspace that
holds it and its name. Refusals are worded as kcp words them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.machinery.kcp import clusters
from pykcp.machinery.untyped import mapping, text
from pykcp.types import Object

CLUSTER = "kcp.io/cluster"
API_BINDINGS_INITIALIZER = "system:apibindings"

MOST_TYPES = 128
"""That a type may extend, with all that these extend."""

Find = Callable[[str, str], Object | None]


class BadType(Exception):
    """A workspace cannot have this type; the text says why."""


class MissingType(BadType):
    """There is no type at the given path."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'Internal error occurred: workspacetypes.tenancy.kcp.io "{name}" not found'
        )


class TypeReference(NamedTuple):
    path: str
    """Of the workspace that holds the type; "" if it is to be looked for."""
    name: str

    def __str__(self) -> str:
        return clusters.join(self.path, self.name)


class ExportReference(NamedTuple):
    path: str
    name: str


def reference(given: Object | None) -> TypeReference | None:
    """`{path, name}` as a workspace or a type says it; None if it names no type."""
    found = mapping(given)
    name = text(found.get("name"))
    return TypeReference(text(found.get("path")), name) if name else None


def cluster_of(workspace_type: Object) -> str:
    """The logical cluster that holds a type."""
    return _annotation(workspace_type, CLUSTER)


def canonical_path(workspace_type: Object) -> str:
    """The path of the workspace that holds a type; its cluster's name if it has no other."""
    return _annotation(workspace_type, PATH_ANNOTATION) or cluster_of(workspace_type)


def _annotation(workspace_type: Object, key: str) -> str:
    value: str = (workspace_type["metadata"].get("annotations") or {}).get(key, "")
    return value


def qualified_name(workspace_type: Object) -> str:
    """`<path>:<name>`: what a type is called everywhere."""
    return clusters.join(canonical_path(workspace_type), workspace_type["metadata"]["name"])


def lifecycle_name(workspace_type: Object) -> str:
    """What a type's initializer and its terminator are called: by its cluster, which stays."""
    return clusters.join(cluster_of(workspace_type), workspace_type["metadata"]["name"])


def resolve(workspace_path: str, wanted: TypeReference, find: Find) -> Object:
    """The type that is meant: as said, or the nearest of that name on the way up, at last root's."""
    if wanted.path:
        found = find(wanted.path, wanted.name)
        if found is None:
            raise MissingType(str(wanted))
        return found
    for path in _way_up(workspace_path):
        found = find(path, wanted.name)
        if found is not None:
            return found
    raise BadType(f'workspace type "{wanted}" cannot be resolved')


def _way_up(path: str) -> Iterable[str]:
    above: str | None = path
    last = path
    while above is not None:
        yield above
        last, above = above, clusters.parent(above)
    if last != clusters.ROOT:
        yield clusters.ROOT


def transitive(workspace_type: Object, find: Find) -> list[Object]:
    """All that a type is: what it extends, each followed by what that extends, and last itself."""
    return [*_bases(workspace_type, find, set(), []), workspace_type]


def _bases(workspace_type: Object, find: Find, seen: set[str], way: list[str]) -> list[Object]:
    """`way`: the path of types up to here, to distinguish a cycle from a diamond."""
    name = qualified_name(workspace_type)
    seen.add(name)
    way = [*way, name]
    bases: list[Object] = []
    for given in (_spec(workspace_type).get("extend") or {}).get("with") or ():
        wanted = TypeReference(given.get("path") or "", given.get("name") or "")
        try:
            base = resolve(canonical_path(workspace_type), wanted, find)
        except BadType:
            raise BadType(f"unable to find inherited workspace type {wanted.name}") from None
        name = qualified_name(base)
        if name in way:
            cycle = " -> ".join(way[way.index(name) :])
            raise BadType(f"circular dependency detected in workspace type {name}: {cycle}")
        if name not in seen and len(seen) > MOST_TYPES:
            raise BadType(f"workspace type {way[0]} extends more than {MOST_TYPES} types")
        if name not in seen:
            bases.append(base)
            bases.extend(_bases(base, find, seen, way))
    return bases


def _spec(workspace_type: Object) -> Object:
    return workspace_type.get("spec") or {}


def initializers(types: Sequence[Object]) -> list[str]:
    """What must be done before a workspace of these (transitive) types is ready, by name."""
    names = [lifecycle_name(each) for each in types if _spec(each).get("initializer")]
    if any(_spec(each).get("defaultAPIBindings") for each in types):
        names.append(API_BINDINGS_INITIALIZER)
    return names


def terminators(types: Sequence[Object]) -> list[str]:
    """What must be done before a workspace of these (transitive) types is gone, by name."""
    return [lifecycle_name(each) for each in types if _spec(each).get("terminator")]


def default_bindings(types: Sequence[Object]) -> list[ExportReference]:
    """The exports that workspaces of these (transitive) types bind; each once, in order.

    One without a path lies beside the type.
    """
    found: dict[ExportReference, None] = {}
    for each in types:
        for given in _spec(each).get("defaultAPIBindings") or ():
            path = given.get("path") or cluster_of(each)
            found[ExportReference(path, given["export"])] = None
    return list(found)


def default_child(workspace_type: Object) -> TypeReference | None:
    """The type of children that do not say theirs. It is not inherited."""
    return reference(_spec(workspace_type).get("defaultChildWorkspaceType"))


def add_labels(workspace_type: Object, metadata: Object) -> None:
    """Give a new workspace the labels its type asks for; its own go first."""
    wanted = _spec(workspace_type).get("additionalWorkspaceLabels")
    if wanted:
        metadata["labels"] = {**wanted, **(metadata.get("labels") or {})}


def check_allowed(
    parents: Sequence[Object], children: Sequence[Object], parent_type: str, child_type: str
) -> None:
    """Whether a workspace may lie in another, by their (transitive) types; BadType if not."""
    _check(children, "limitAllowedParents", parents, "parent", child_type, parent_type)
    _check(parents, "limitAllowedChildren", children, "child", parent_type, child_type)


def _check(
    limiting: Sequence[Object],
    limit: str,
    limited: Sequence[Object],
    role: str,
    limiting_type: str,
    limited_type: str,
) -> None:
    """Every limit of `limiting` must be met by one of `limited`, who are its parent or child."""
    implemented = {qualified_name(each) for each in limited}
    refusals: dict[str, None] = {}
    for each in limiting:
        selector = _spec(each).get(limit) or {}
        if selector.get("none"):
            refusals[f"workspace type {limiting_type} cannot have any {role}"] = None
            continue
        allowed = {
            clusters.join(t.get("path") or "", t["name"]) for t in selector.get("types") or ()
        }
        if not allowed or allowed & implemented:
            continue
        name = qualified_name(each)
        via = "" if name == limiting_type else f" extends {name}, which"
        refusals[
            f"workspace type {limiting_type}{via} only allows {_shown(allowed)} {role} workspaces,"
            f" but {role} type {limited_type} only implements {_shown(implemented)}"
        ] = None
    if refusals:
        texts = list(refusals)
        raise BadType(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _shown(names: set[str]) -> str:
    return f"[{' '.join(sorted(names))}]"
