"""Operations: what can be done under which path, before it becomes v2 or v3.

Names, tags and parameters are upstream's, since generated clients are named after them.
Custom resources are described as upstream describes them, which differs in small ways
from built-in kinds: no watch paths, fewer media types, other parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pykcp.machinery.schema.definition import ResourceDefinition, Subresource
from pykcp.types import Object

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
STATUS = f"{META}.Status"
DELETE_OPTIONS = f"{META}.DeleteOptions"
PATCH = f"{META}.Patch"
WATCH_EVENT = f"{META}.WatchEvent"
SCALE = "io.k8s.api.autoscaling.v1.Scale"

JSON_AND_YAML = ("application/json", "application/yaml")
NATIVE_TYPES = (*JSON_AND_YAML, "application/vnd.kubernetes.protobuf")
STREAM_TYPES = (
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
)
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_PATCH_TYPES = tuple(t for t in PATCH_TYPES if "strategic" not in t)
ANYTHING = ("*/*",)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query or path parameter."""

    name: str
    type: str
    description: str
    place: str = "query"


_PARAMETERS = {
    p.name: p
    for p in (
        Parameter("pretty", "string", "Whether the answer is indented for people."),
        Parameter("namespace", "string", "Namespace of the objects.", "path"),
        Parameter("name", "string", "Name of the object.", "path"),
        Parameter("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
        Parameter("continue", "string", "Token of the page before, to ask for the next one."),
        Parameter("fieldSelector", "string", "Only objects whose fields match."),
        Parameter("labelSelector", "string", "Only objects whose labels match."),
        Parameter("limit", "integer", "Answer with at most so many items and a continue token."),
        Parameter(
            "resourceVersion",
            "string",
            "Minimum resource version of the response, or where a watch starts.",
        ),
        Parameter("resourceVersionMatch", "string", "Exact or NotOlderThan."),
        Parameter(
            "sendInitialEvents",
            "boolean",
            "Start a watch with synthetic events for existing objects.",
        ),
        Parameter(
            "shardSelector",
            "string",
            "Only objects of some shards. Alpha: ignored by a server that does not shard lists.",
        ),
        Parameter("timeoutSeconds", "integer", "Timeout of the request, in seconds."),
        Parameter("watch", "boolean", "Stream changes instead of returning a list."),
        Parameter(
            "dryRun", "string", "Set to All to process the request without persisting the result."
        ),
        Parameter("fieldManager", "string", "Name of the field manager."),
        Parameter("fieldValidation", "string", "Ignore, Warn or Strict, for unknown fields."),
        Parameter("force", "boolean", "Take over fields of other managers. For apply patches."),
        Parameter(
            "gracePeriodSeconds", "integer", "Grace period in seconds before the object is deleted."
        ),
        Parameter(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "boolean",
            "Delete the object even if it can no longer be read.",
        ),
        Parameter("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
        Parameter("propagationPolicy", "string", "Orphan, Background or Foreground."),
        Parameter("command", "string", "The program to run, and its arguments."),
        Parameter("container", "string", "Name of the container; the only one if not given."),
        Parameter("stdin", "boolean", "Whether standard input is sent."),
        Parameter("stdout", "boolean", "Whether standard output is received."),
        Parameter("stderr", "boolean", "Whether standard error is received."),
        Parameter("tty", "boolean", "Whether there is a terminal."),
        Parameter("ports", "integer", "Ports to forward."),
        Parameter("path", "string", "Path of the URL to use."),
        Parameter("follow", "boolean", "Whether the log goes on as it is written."),
        Parameter(
            "insecureSkipTLSVerifyBackend",
            "boolean",
            "Whether the serving certificate of the node's agent is not verified.",
        ),
        Parameter("limitBytes", "integer", "At most so many bytes of the log."),
        Parameter("previous", "boolean", "The log of the container that ran before."),
        Parameter("sinceSeconds", "integer", "Only what is younger than so many seconds."),
        Parameter("stream", "string", "All, Stdout or Stderr."),
        Parameter("tailLines", "integer", "Only so many lines from the end."),
        Parameter("timestamps", "boolean", "Whether each line begins with its time."),
    )
}

_STREAMS = ("container", "stderr", "stdin", "stdout", "tty")
_CONNECTED = {
    "NodeProxyOptions": ("path",),
    "PodAttachOptions": _STREAMS,
    "PodExecOptions": ("command", *_STREAMS),
    "PodPortForwardOptions": ("ports",),
    "PodProxyOptions": ("path",),
    "ServiceProxyOptions": ("path",),
}
"""Kinds whose fields are parameters of a connection."""
_CONNECT_METHODS = {
    "create": "post", "delete": "delete", "get": "get", "patch": "patch", "update": "put",
}  # fmt: skip
_LOG = (
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
)
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_DELETE_COLLECTION = tuple(sorted({*_LIST, *_DELETE} - {"allowWatchBookmarks", "watch"}))


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path."""

    path: str
    method: str
    id: str
    description: str
    responses: dict[int, str]
    """Component that each status code answers with; "" for plain text."""
    tags: tuple[str, ...] = ()
    action: str = ""
    gvk: Object | None = None
    parameter_names: tuple[str, ...] = ()
    body: str = ""
    """Component of the body; "" for none."""
    body_required: bool = True
    consumes: tuple[str, ...] = ANYTHING
    produces: tuple[str, ...] = JSON_AND_YAML
    parameters: tuple[Parameter, ...] = field(init=False)

    def __post_init__(self) -> None:
        named = sorted(set(self.parameter_names))
        object.__setattr__(self, "parameters", tuple(_PARAMETERS[n] for n in named))


def camel(text: str, *, first: bool) -> str:
    """`rbac.authorization` → `RbacAuthorization`, or `rbacAuthorization`."""
    out: list[str] = []
    upper = first
    for index, char in enumerate(text):
        if char.isalpha() or char == "_" or (index and char.isdigit()):
            out.append(char.upper() if upper else char)
            upper = False
        else:
            upper = True
    return "".join(out)


def tag_of(group: str, version: str = "") -> str:
    name = camel((group or "core").removesuffix(".k8s.io"), first=False)
    return f"{name}_{camel(version, first=False)}" if version else name


def operation_infix(group: str, version: str) -> str:
    """`CoreV1`, `RbacAuthorizationV1`, `ExampleComV1`."""
    return camel((group or "core").removesuffix(".k8s.io"), first=True) + camel(version, first=True)


def base_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def resource_operations(definition: ResourceDefinition, version: str) -> Iterator[Operation]:
    """Every operation on a resource and its subresources."""
    yield from _Builder(definition, version).operations()


class _Builder:
    def __init__(self, definition: ResourceDefinition, version: str) -> None:
        self.definition = definition
        self.version = version
        self.kind = definition.kind
        self.component = definition.schema(version).ref
        list_schema = definition.list_schema(version)
        self.list_component = list_schema.ref if list_schema is not None else ""
        self.infix = operation_infix(definition.group, version)
        self.tags = (tag_of(definition.group, version),)
        self.scope = "Namespaced" if definition.namespaced else ""
        base = base_path(definition.group, version)
        inside = "/namespaces/{namespace}" if definition.namespaced else ""
        self.base = base
        self.collection = f"{base}{inside}/{definition.plural}"
        self.everywhere = f"{base}/{definition.plural}"
        self.watch_collection = f"{base}/watch{inside}/{definition.plural}"
        self.gvk = {"group": definition.group, "version": version, "kind": self.kind}

    def _operation(
        self,
        path: str,
        method: str,
        verb: str,
        noun: str,
        description: str,
        responses: dict[int, str],
        action: str,
        parameters: Sequence[str] = (),
        body: str = "",
        *,
        required: bool = True,
        consumes: tuple[str, ...] | None = None,
        streams: bool = False,
        gvk: Object | None = None,
    ) -> Operation:
        in_path = tuple(p for p in ("namespace", "name") if f"{{{p}}}" in path)
        native = self.definition.native
        produces: tuple[str, ...] = NATIVE_TYPES if native else JSON_AND_YAML
        if streams and native:
            produces = (*NATIVE_TYPES, *STREAM_TYPES)
        return Operation(
            path=path,
            method=method,
            id=f"{verb}{self.infix}{noun}",
            description=description,
            responses=responses,
            tags=self.tags,
            action=action,
            gvk=gvk or self.gvk,
            parameter_names=("pretty", *in_path, *parameters),
            body=body,
            body_required=required,
            consumes=consumes or (ANYTHING if native else JSON_AND_YAML),
            produces=produces,
        )

    def operations(self) -> Iterator[Operation]:
        verbs = self.definition.verbs
        if "list" in verbs:
            yield from self._lists()
        if "create" in verbs:
            yield self._create(self.collection, "", self.component, self.gvk)
        if "deletecollection" in verbs:
            yield self._delete_collection()
        item = f"{self.collection}/{{name}}"
        if "get" in verbs:
            yield self._read(item, "", self.component, self.gvk)
        if "update" in verbs:
            yield self._replace(item, "", self.component, self.gvk)
        if "delete" in verbs:
            yield self._delete(item)
        if "patch" in verbs:
            yield self._patch(item, "", self.component, self.gvk)
        if "watch" in verbs and self.definition.native:
            yield from self._watches()
        for subresource in self.definition.subresources_of(self.version):
            yield from self._subresource(f"{item}/{subresource.name}", subresource)

    def _lists(self) -> Iterator[Operation]:
        text = f"List or watch {self.kind} objects."
        answer = {200: self.list_component}
        if self.definition.namespaced:
            noun = f"{self.kind}ForAllNamespaces"
            yield self._operation(
                self.everywhere, "get", "list", noun, text, answer, "list", _LIST, streams=True
            )
        noun = f"{self.scope}{self.kind}"
        yield self._operation(
            self.collection, "get", "list", noun, text, answer, "list", _LIST, streams=True
        )

    def _watches(self) -> Iterator[Operation]:
        text = f"Watch {self.kind} objects. Deprecated: list with the parameter watch instead."
        answer = {200: WATCH_EVENT}
        item = f"{self.watch_collection}/{{name}}"
        noun = f"{self.scope}{self.kind}"
        if "get" in self.definition.verbs:
            yield self._operation(
                item, "get", "watch", noun, text, answer, "watch", _LIST, streams=True
            )
        yield self._operation(
            self.watch_collection,
            "get",
            "watch",
            f"{noun}List",
            text,
            answer,
            "watchlist",
            _LIST,
            streams=True,
        )
        if self.definition.namespaced:
            yield self._operation(
                f"{self.base}/watch/{self.definition.plural}",
                "get",
                "watch",
                f"{self.kind}ListForAllNamespaces",
                text,
                answer,
                "watchlist",
                _LIST,
                streams=True,
            )

    def _subresource(self, path: str, subresource: Subresource) -> Iterator[Operation]:
        title = subresource.name.capitalize()
        if subresource.kind in _CONNECTED:
            yield from self._connections(path, title, subresource)
            return
        if subresource.name == "log":
            yield self._log(path, title)
            return
        component, gvk = self._subresource_type(subresource)
        makers = {
            "get": self._read,
            "update": self._replace,
            "patch": self._patch,
            "create": self._create,
        }
        for verb, make in makers.items():
            if verb in subresource.verbs:
                yield make(path, title, component, gvk)

    def _subresource_type(self, subresource: Subresource) -> tuple[str, Object]:
        if subresource.kind == self.kind:
            return self.component, self.gvk
        gvk = self._gvk_of(subresource)
        if subresource.kind == "Scale":
            # upstream names the custom resource itself here
            return SCALE, gvk if self.definition.native else self.gvk
        group = str(gvk["group"] or "core").removesuffix(".k8s.io")
        return f"io.k8s.api.{group}.{gvk['version']}.{subresource.kind}", gvk

    def _gvk_of(self, subresource: Subresource) -> Object:
        is_own = not subresource.version
        return {
            "group": self.definition.group if is_own else subresource.group,
            "version": self.version if is_own else subresource.version,
            "kind": subresource.kind,
        }

    def _connections(self, path: str, title: str, subresource: Subresource) -> Iterator[Operation]:
        """Streams to where an object runs: nothing is read or written as an object."""
        for verb, method in _CONNECT_METHODS.items():
            if verb in subresource.verbs:
                made = self._operation(
                    path,
                    method,
                    "connect",
                    f"{method.capitalize()}{self._noun(title)}",
                    f"Connect to {self._of(title)}.",
                    {200: ""},
                    "connect",
                    _CONNECTED[subresource.kind],
                    consumes=ANYTHING,
                    gvk=self._gvk_of(subresource),
                )
                names = tuple(name for name in made.parameter_names if name != "pretty")
                yield replace(made, produces=ANYTHING, parameter_names=names)

    def _log(self, path: str, title: str) -> Operation:
        made = self._read(path, title, "", self.gvk)
        return replace(
            made,
            parameter_names=("pretty", "namespace", "name", *_LOG),
            produces=("text/plain", *made.produces),
        )

    def _noun(self, title: str) -> str:
        return f"{self.scope}{self.kind}{title}"

    def _of(self, title: str) -> str:
        return f"the {title.lower()} of a {self.kind}" if title else f"a {self.kind}"

    def _create(self, path: str, title: str, component: str, gvk: Object) -> Operation:
        return self._operation(
            path,
            "post",
            "create",
            self._noun(title),
            f"Create {self._of(title)}.",
            {200: component, 201: component, 202: component},
            "post",
            _WRITE,
            component,
            gvk=gvk,
        )

    def _read(self, path: str, title: str, component: str, gvk: Object) -> Operation:
        parameters = () if self.definition.native else ("resourceVersion",)
        return self._operation(
            path,
            "get",
            "read",
            self._noun(title),
            f"Read {self._of(title)}.",
            {200: component},
            "get",
            parameters,
            gvk=gvk,
        )

    def _replace(self, path: str, title: str, component: str, gvk: Object) -> Operation:
        return self._operation(
            path,
            "put",
            "replace",
            self._noun(title),
            f"Replace {self._of(title)}.",
            {200: component, 201: component},
            "put",
            _WRITE,
            component,
            gvk=gvk,
        )

    def _patch(self, path: str, title: str, component: str, gvk: Object) -> Operation:
        native = self.definition.native
        return self._operation(
            path,
            "patch",
            "patch",
            self._noun(title),
            f"Change parts of {self._of(title)}.",
            {200: component, 201: component} if native else {200: component},
            "patch",
            (*_WRITE, "force"),
            PATCH,
            consumes=PATCH_TYPES if native else CUSTOM_PATCH_TYPES,
            gvk=gvk,
        )

    def _delete(self, path: str) -> Operation:
        answer = self.component if self.definition.returns_deleted else STATUS
        return self._operation(
            path,
            "delete",
            "delete",
            self._noun(""),
            f"Delete {self._of('')}.",
            {200: answer, 202: answer},
            "delete",
            _DELETE,
            DELETE_OPTIONS,
            required=False,
        )

    def _delete_collection(self) -> Operation:
        native = self.definition.native
        return self._operation(
            self.collection,
            "delete",
            "delete",
            f"Collection{self.scope}{self.kind}",
            f"Delete all {self.kind} objects that match.",
            {200: STATUS},
            "deletecollection",
            _DELETE_COLLECTION if native else _LIST,
            DELETE_OPTIONS if native else "",
            required=False,
        )
