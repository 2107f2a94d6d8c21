"""Feature gates by name, with their stage and default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gate:
    stage: str
    default: bool
    why: str


GATES: dict[str, Gate] = {
    "WorkspaceMounts": Gate(
        "alpha", False, "Workspaces whose requests are forwarded to another server."
    ),
    "CacheAPIs": Gate("alpha", False, "Cached resources and the replication virtual workspace."),
    "EnableDeprecatedAPIExportVirtualWorkspacesUrls": Gate(
        "alpha", False, "Set the deprecated status field of APIExports."
    ),
    "WorkspaceAuthentication": Gate("alpha", False, "Workspace-specific token issuers."),
    "LogicalClusterMigration": Gate("alpha", False, "Move logical clusters between shards."),
    "StorageVersionAPI": Gate("alpha", False, "Check storage versions before writes."),
    # Gates of Kubernetes that are always on here; accepted for compatibility.
    "APIResponseCompression": Gate("beta", True, "Compress large responses."),
    "ConsistentListFromCache": Gate("beta", True, "Lists are always consistent."),
    "ListFromCacheSnapshot": Gate("beta", True, "Pages are always read from one snapshot."),
    "OpenAPIEnums": Gate("beta", True, "Publish enums."),
    "StreamingCollectionEncodingToJSON": Gate("beta", True, "Lists are always streamed."),
    "StreamingCollectionEncodingToProtobuf": Gate("beta", True, "The same for protobuf."),
    "WatchList": Gate("beta", True, "Streaming lists."),
    "LoggingBetaOptions": Gate("beta", True, "Beta logging flags."),
    "ContextualLogging": Gate("beta", True, "Logs contain their context."),
    # Gates of Kubernetes that kcp turns off; accepted for compatibility.
    "DRAExtendedResource": Gate("alpha", False, "No effect: there are no devices."),
    "SizeBasedListCostEstimate": Gate(
        "beta", False, "No effect: lists are charged by measured cost."
    ),
    "UnknownVersionInteroperabilityProxy": Gate(
        "alpha", False, "No effect: all replicas of a shard serve the same resources."
    ),
    "WatchCacheInitializationPostStartHook": Gate(
        "beta", False, "No effect: there is no watch cache."
    ),
}
