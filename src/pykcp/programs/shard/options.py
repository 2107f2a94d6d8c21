"""The option groups that only a shard has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykcp.machinery.kcp import clusters
from pykcp.programs.kit.checks import (
    ca_bundle,
    https_url,
    key_pairs,
    kubeconfig_file,
    loaded_by,
    not_negative,
    readable_file,
)
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.apis.kube.workloads.service_addresses import ServiceRanges


def _load_mini_mappings(path: str) -> None:
    from pykcp.proxy.mapping import load_mappings

    load_mappings(path, required=())


BATTERIES = ("workspace-types", "admin", "user", "metrics-viewer", "kubernetes")
_DEFAULT_BATTERIES = ("workspace-types", "admin")


class GenericOptions(RootDirectoryOptions):
    OTHER = (
        ignored("unsupported-run-individual-controllers", "strings", (), hidden=True),
        ignored("profiler-address"),
        ignored("profiling", "bool", True),
        ignored("contention-profiling", "bool", False),
        ignored("debug-socket-path"),
        ignored("enable-logs-handler", "bool", True),
        ignored("show-hidden-metrics-for-version"),
        ignored("allow-metric-labels", "strings", ()),
        ignored("allow-metric-labels-manifest"),
        ignored("disabled-metrics", "strings", ()),
        ignored("emulated-version", "strings", ()),
        ignored("enable-leader-election", "bool", False),
        ignored("leader-election-namespace", "string", "kube-system"),
        ignored("leader-election-name", "string", "kcp-controllers"),
        ignored("coordinated-leadership-lease-duration", "duration", 15.0),
        ignored("coordinated-leadership-renew-deadline", "duration", 10.0),
        ignored("coordinated-leadership-retry-period", "duration", 2.0),
    )

    kubeconfig_path: str = option(
        "File of the admin kubeconfig, relative to the root directory.", "admin.kubeconfig"
    )
    admin_token_path: str = option(
        "File of the hash of the shard-admin token, relative to the root directory.",
        ".admin-token-store",
        flag="authentication-admin-token-path",
    )
    batteries_included: tuple[str, ...] = option(
        "Sets of objects to start with: workspace-types, admin, user, metrics-viewer, kubernetes (an export of Kubernetes' kinds for workloads). +name and -name change the default.",
        _DEFAULT_BATTERIES,
    )
    kubernetes_cluster: str = option(
        "Logical cluster that is served at the root of the URL, as by kube-apiserver, with Kubernetes' kinds for workloads but without their controllers. For tests of programs that know only Kubernetes.",
        "",
    )
    service_cluster_ip_range: str = option(
        "Addresses that services of Kubernetes' kinds get as cluster IPs, in each logical cluster anew.",
        "10.0.0.0/16",
    )
    service_node_port_range: str = option(
        "Ports that services of Kubernetes' kinds get as node ports, in each logical cluster anew.",
        "30000-32767",
    )
    run_kubernetes_controllers: bool = option(
        "Run the controllers of kube-controller-manager that delete namespaces with their content, collect owned objects, and give namespaces a default service account and the ConfigMap kube-root-ca.crt. Without them, a server is as bare as kube-apiserver alone.",
        True,
    )
    run_controllers: bool = option("Run the controllers in this process.", True)
    external_hostname: str = option("Host name under which clients reach this server.", "")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        cluster = self.kubernetes_cluster
        if cluster and not clusters.is_name(cluster):
            yield f'--kubernetes-cluster: "{cluster}" is not the name of a logical cluster'
        yield from self._range_problems()
        if unknown := self.batteries.difference(BATTERIES):
            yield f"--batteries-included: unknown batteries {sorted(unknown)}, known are {sorted(BATTERIES)}"

    def _range_problems(self) -> Iterator[str]:
        default = type(self)()
        given = (self.service_cluster_ip_range, self.service_node_port_range)
        if given == (default.service_cluster_ip_range, default.service_node_port_range):
            return  # correct, and nothing needs to be imported for it
        try:
            self.service_ranges()
        except ValueError as error:
            yield f"--service-cluster-ip-range or --service-node-port-range: {error}"

    def service_ranges(self) -> ServiceRanges:
        """Where services get their addresses from."""
        from pykcp.apis.kube.workloads.service_addresses import read_ranges

        return read_ranges(self.service_cluster_ip_range, self.service_node_port_range)

    @property
    def batteries(self) -> frozenset[str]:
        """The batteries chosen: `+x` and `-x` change the default, plain names replace it."""
        names = self.batteries_included
        chosen = {name for name in names if name[:1] not in "+-"} or set(_DEFAULT_BATTERIES)
        for name in names:
            if name[:1] == "+":
                chosen.add(name[1:])
            elif name[:1] == "-":
                chosen.discard(name[1:])
        return frozenset(chosen)


class ShardOptions(OptionGroup):
    """The shard's place in an installation of several."""

    TITLE = "Shard"
    # Shards reach each other directly, also those that kcp reaches through the front-proxy.
    OTHER = (ignored("external-logical-cluster-admin-kubeconfig"),)

    shard_name: str = option("Name of this shard; `root` makes it the root shard.", "root")
    shard_base_url: str = option(
        "URL at which other components reach this shard.", "", check=https_url
    )
    shard_external_url: str = option(
        "URL at which users reach this shard, usually that of the front-proxy.",
        "",
        check=https_url,
    )
    shard_virtual_workspace_url: str = option(
        "URL of the virtual workspaces of this shard.", "", check=https_url
    )
    shard_virtual_workspace_ca_file: str = option(
        "CA bundle (PEM) of virtual workspaces in other processes.", "", check=ca_bundle
    )
    shard_client_cert_file: str = option(
        "Client certificate (PEM) for requests to other shards, and to virtual workspaces in other processes.",
        "",
    )
    shard_client_key_file: str = option("Key of --shard-client-cert-file.", "")
    run_virtual_workspaces: bool = option(
        "Serve virtual workspaces under /services/; otherwise requests there are forwarded to --shard-virtual-workspace-url.",
        True,
    )
    root_identities_file: str = option(
        "YAML file with the identity keys of the exports in root, instead of random ones: identities, a list of export and identity.",
        "",
        check=readable_file,
    )
    shard_kubeconfig_file: str = option(
        "Kubeconfig of an administrator of the other shards; its server is replaced by theirs. --logical-cluster-admin-kubeconfig is used if empty.",
        "",
        check=kubeconfig_file,
    )
    root_shard_kubeconfig_file: str = option(
        "Kubeconfig of an administrator of the root shard. This shard joins it and has no root of its own.",
        "",
        check=kubeconfig_file,
    )
    cache_kubeconfig: str = option(
        "Kubeconfig of a member of system:masters on the cache server; if empty, the one in this process is used.",
        "",
        check=kubeconfig_file,
    )
    cache_server_kubeconfig_file: str = option(
        "Former name of --cache-kubeconfig.", "", check=kubeconfig_file
    )
    logical_cluster_admin_kubeconfig: str = option(
        "Kubeconfig of an administrator of logical clusters, directly at the shards; its server is replaced by theirs.",
        "",
        check=kubeconfig_file,
    )
    miniproxy_mapping_file: str = option(
        "For development: file of paths that are forwarded to other servers, as --mapping-file of kcp-front-proxy.",
        "",
        check=loaded_by(_load_mini_mappings),
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from key_pairs(
            "shard-client-cert-file",
            self.shard_client_cert_file,
            "shard-client-key-file",
            self.shard_client_key_file,
        )
        if self.logical_cluster_admin_kubeconfig and not self.shard_external_url:
            yield "--shard-external-url is required if --logical-cluster-admin-kubeconfig is set"

    @property
    def has_peers(self) -> bool:
        """Whether other shards can be reached."""
        return bool(
            self.shard_kubeconfig_file
            or self.root_shard_kubeconfig_file
            or self.logical_cluster_admin_kubeconfig
        )

    @property
    def is_root(self) -> bool:
        """Whether this shard has the logical cluster `root`."""
        return not self.root_shard_kubeconfig_file

    @property
    def remote_cache(self) -> str:
        """The kubeconfig of the cache server; "" if it is in this process."""
        return self.cache_kubeconfig or self.cache_server_kubeconfig_file


class TenancyOptions(OptionGroup):
    """What tenants get: homes, numbers of objects, time to undo."""

    TITLE = "Workspaces"
    OTHER = (
        ignored("conversion-cel-transformation-timeout", "duration", 1.0),
        ignored("logical-cluster-object-count-scan-interval", "duration", 60.0),
    )

    enable_home_workspaces: bool = option(
        "Create a home workspace for users who request `workspaces/~` in root.", True
    )
    home_creator_groups: tuple[str, ...] = option(
        "Groups whose members may have a home workspace.",
        ("system:authenticated",),
        flag="home-workspaces-home-creator-groups",
    )
    total_object_limit: int = option(
        "Objects that a logical cluster may hold, unless its annotation core.kcp.io/max-total-objects says otherwise; 0 or less is no limit. Not for root and system clusters.",
        0,
        flag="logical-cluster-total-object-limit",
    )
    tenant_object_limits: bool = option(
        "Let users who may update their LogicalCluster set core.kcp.io/max-total-objects on it, as in kcp. Otherwise only system privileged users may.",
        False,
        flag="logical-cluster-object-limit-by-tenants",
    )
    workspace_undelete_window: float = option(
        "How long deleted workspaces are kept so that they can be restored; 0: not at all.",
        0.0,
        check=not_negative,
    )
    event_ttl: float = option("How long events are kept.", 3600.0)
