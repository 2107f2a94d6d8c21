"""Feature gates: what is unfinished or optional, by name and stage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gate:
    stage: str
    default: bool
    why: str


GATES: dict[str, Gate] = {
    "WorkspaceMounts": Gate("alpha", False, "Workspaces whose requests go elsewhere."),
    "CacheAPIs": Gate("alpha", False, "Cached resources and the replication virtual workspace."),
    "EnableDeprecatedAPIExportVirtualWorkspacesUrls": Gate(
        "alpha", False, "Fill the old status field of APIExports."
    ),
    "WorkspaceAuthentication": Gate("alpha", False, "Token issuers of a workspace's own."),
    "LogicalClusterMigration": Gate("alpha", False, "Move logical clusters between shards."),
    "StorageVersionAPI": Gate("alpha", False, "Check storage versions before writes."),
    # Known to Kubernetes; always on here, accepted so that command lines work.
    "APIResponseCompression": Gate("beta", True, "Compress large answers."),
    "ConsistentListFromCache": Gate("beta", True, "Lists are consistent here always."),
    "ListFromCacheSnapshot": Gate("beta", True, "Pages come from one snapshot here always."),
    "OpenAPIEnums": Gate("beta", True, "Publish enums."),
    "StreamingCollectionEncodingToJSON": Gate("beta", True, "Lists are streamed here always."),
    "StreamingCollectionEncodingToProtobuf": Gate("beta", True, "Likewise in protobuf."),
    "WatchList": Gate("beta", True, "Streaming lists."),
    "LoggingBetaOptions": Gate("beta", True, "Beta logging flags."),
    "ContextualLogging": Gate("beta", True, "Logs carry their context."),
    # Known to Kubernetes and switched off by kcp; nothing here depends on them.
    "DRAExtendedResource": Gate("alpha", False, "Of no effect: there are no devices here."),
    "SizeBasedListCostEstimate": Gate("beta", False, "Of no effect: lists are paid as they go."),
    "UnknownVersionInteroperabilityProxy": Gate(
        "alpha", False, "Of no effect: all replicas of a shard serve the same."
    ),
    "WatchCacheInitializationPostStartHook": Gate(
        "beta", False, "Of no effect: there is no watch cache to fill."
    ),
}
