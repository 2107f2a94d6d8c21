"""The flags of `kcp start`, with kcp's names, defaults and meanings."""

from __future__ import annotations

import pathlib
from typing import Any

from pykcp.auth.settings import SignInSettings
from pykcp.cli.audit_flags import AUDIT_FLAGS, audit_settings
from pykcp.cli.connection_flags import CONNECTION_FLAGS, wire_settings
from pykcp.cli.flags import Flag, FlagError, FlagSet
from pykcp.features import GATES
from pykcp.programs.shard.settings import ShardSettings
from pykcp.workers.pool import WorkerSettings


def _ignored(name: str, kind: str = "string", default: Any = "", help_text: str = "") -> Flag:
    return Flag(name, kind, default, help_text or "Known to kcp.", is_ignored=True)


def _later(name: str, kind: str = "string", default: Any = "") -> Flag:
    """A flag that must not be ignored: somebody relies on what it protects."""
    return Flag(name, kind, default, "Not supported yet.", is_hidden=True, is_refused=True)


SECTIONS: list[tuple[str, list[Flag]]] = [
    (
        "Generic",
        [
            Flag(
                "root-directory",
                "string",
                ".kcp",
                "Directory in which the server keeps its state, keys and kubeconfig.",
            ),
            Flag(
                "kubeconfig-path",
                "string",
                "admin.kubeconfig",
                "Where to write the admin kubeconfig, relative to the root directory.",
            ),
            Flag(
                "authentication-admin-token-path",
                "string",
                ".admin-token-store",
                "Where to keep the hash of the shard-admin token, relative to the root directory.",
            ),
            Flag(
                "batteries-included",
                "strings",
                ["workspace-types", "admin"],
                "Sets of objects to start with: workspace-types, admin, user, metrics-viewer. +name and -name change the default.",
            ),
            Flag(
                "feature-gates",
                "map",
                {},
                "Switch alpha and beta features on or off, name=true or name=false.",
            ),
            Flag("run-controllers", "bool", True, "Run the controllers in this process."),
            Flag(
                "unsupported-run-individual-controllers",
                "strings",
                [],
                "Run only these controllers.",
                is_hidden=True,
                is_ignored=True,
            ),
            Flag(
                "external-hostname",
                "string",
                "",
                "Host name under which clients reach this server.",
            ),
            Flag(
                "profiler-address",
                "string",
                "",
                "Address on which to open a profiler.",
                is_ignored=True,
            ),
        ],
    ),
    (
        "Secure serving",
        [
            Flag("bind-address", "string", "0.0.0.0", "IP address to listen on."),  # noqa: S104
            Flag("secure-port", "int", 6443, "Port to serve HTTPS on."),
            Flag(
                "experimental-bind-free-port",
                "bool",
                False,
                "Listen on any free port (with --secure-port=0).",
                is_hidden=True,
            ),
            Flag(
                "tls-cert-file",
                "string",
                "",
                "Serving certificate (PEM). Made in the root directory if not given.",
            ),
            Flag("tls-private-key-file", "string", "", "Key of the serving certificate (PEM)."),
            Flag(
                "tls-min-version",
                "string",
                "VersionTLS12",
                "Lowest TLS version to accept: VersionTLS12 or VersionTLS13.",
            ),
            _ignored("tls-cipher-suites", "strings", []),
            _ignored("tls-sni-cert-key", "strings", []),
            _ignored("cert-dir"),
            _ignored("permit-port-sharing", "bool", False),
            _ignored("livez-grace-period", "duration", 0.0),
            _ignored("max-connection-bytes-per-sec", "int", 0),
            _ignored("strict-transport-security-directives", "strings", []),
            _ignored("tls-curve-preferences", "strings", []),
            _ignored("permit-address-sharing", "bool", False),
            _ignored("disable-http2-serving", "bool", False),
            _ignored("goaway-chance"),
            _ignored("cors-allowed-origins", "strings", []),
            Flag(
                "shutdown-delay-duration",
                "duration",
                0.0,
                "Time between a stop signal and refusing new requests.",
                is_ignored=True,
            ),
            Flag(
                "shutdown-watch-termination-grace-period",
                "duration",
                0.0,
                "Time that open watches get to end.",
                is_ignored=True,
            ),
            _ignored("shutdown-send-retry-after", "bool", False),
        ],
    ),
    (
        "Shard",
        [
            Flag(
                "shard-name",
                "string",
                "root",
                "Name of this shard; `root` makes it the root shard.",
            ),
            Flag("shard-base-url", "string", "", "URL at which other components reach this shard."),
            Flag(
                "shard-external-url",
                "string",
                "",
                "URL that users reach this shard by, usually the front-proxy's.",
            ),
            Flag(
                "shard-virtual-workspace-url",
                "string",
                "",
                "URL of the virtual workspaces of this shard.",
            ),
            Flag(
                "shard-virtual-workspace-ca-file",
                "string",
                "",
                "CA of virtual workspaces in other processes.",
            ),
            Flag(
                "shard-client-cert-file",
                "string",
                "",
                "Client certificate to show to virtual workspaces in other processes.",
            ),
            Flag("shard-client-key-file", "string", "", "Key of --shard-client-cert-file."),
            _ignored("shard-kubeconfig-file"),
            _later("root-shard-kubeconfig-file"),
            Flag(
                "root-identities-file",
                "string",
                "",
                "YAML file with the identity keys that the exports of root are to have, instead "
                "of random ones: identities, a list of export and identity.",
            ),
            _later("cache-kubeconfig"),
            _ignored("logical-cluster-admin-kubeconfig"),
            _ignored("external-logical-cluster-admin-kubeconfig"),
            Flag(
                "mount-proxy-client-cert-file",
                "string",
                "",
                "Client certificate to show to the servers behind mounted workspaces.",
            ),
            Flag(
                "mount-proxy-client-key-file",
                "string",
                "",
                "Key of --mount-proxy-client-cert-file.",
            ),
            Flag(
                "mount-proxy-ca-file",
                "string",
                "",
                "CA bundle that certificates of servers behind mounted workspaces are verified with. Without it they are not verified, as in kcp.",
            ),
            Flag(
                "tenant-egress-allow",
                "strings",
                [],
                "The only destinations that may be called for tenants: networks, addresses, host names (*.example.com), each with or without a port. Empty: all but those that are denied.",
            ),
            Flag(
                "tenant-egress-deny",
                "strings",
                [],
                "Destinations that must not be called for tenants, in addition to link-local addresses and this installation's own.",
            ),
            Flag(
                "tenant-egress-connections",
                "int",
                512,
                "Calls of webhooks, conversion webhooks and issuers for tenants in progress at a time. No tenant, user or destination gets more of them than are free.",
            ),
            Flag(
                "tenant-egress-forwards",
                "int",
                4096,
                "The same for requests that are forwarded to mounts and virtual resources.",
            ),
            _later("miniproxy-mapping-file"),
            Flag(
                "enable-home-workspaces",
                "bool",
                True,
                "Make a workspace of their own for users who ask for `workspaces/~` in root.",
            ),
            Flag(
                "home-workspaces-home-creator-groups",
                "strings",
                ["system:authenticated"],
                "Groups whose members may have a home workspace.",
            ),
            Flag(
                "run-virtual-workspaces",
                "bool",
                True,
                "Answer under /services/; otherwise --shard-virtual-workspace-url does.",
            ),
            _ignored("enable-leader-election", "bool", False),
            _ignored("coordinated-leadership-lease-duration", "duration", 15.0),
            _ignored("coordinated-leadership-renew-deadline", "duration", 10.0),
            _ignored("coordinated-leadership-retry-period", "duration", 2.0),
            _ignored("emulated-version", "strings", []),
            _ignored("leader-election-namespace", "string", "kube-system"),
            _ignored("leader-election-name", "string", "kcp-controllers"),
            _ignored("conversion-cel-transformation-timeout", "duration", 1.0),
            Flag(
                "logical-cluster-total-object-limit",
                "int",
                0,
                "Objects that a logical cluster may hold, unless its annotation core.kcp.io/max-total-objects says otherwise; 0 or less is no limit. Not for root and system clusters.",
            ),
            Flag(
                "logical-cluster-object-limit-by-tenants",
                "bool",
                False,
                "Let users who may update their LogicalCluster set core.kcp.io/max-total-objects on it, as in kcp. Otherwise only system privileged users may.",
            ),
            _ignored("logical-cluster-object-count-scan-interval", "duration", 60.0),
        ],
    ),
    ("Connections", CONNECTION_FLAGS),
    (
        "Fairness",
        [
            Flag(
                "fairness",
                "bool",
                True,
                "Share the server fairly between logical clusters and their users.",
            ),
            Flag(
                "fairness-seats",
                "int",
                256,
                "Writes in progress at a time; one user gets a quarter of them at most, over all logical clusters, and one logical cluster half.",
            ),
            Flag(
                "fairness-read-seats",
                "int",
                128,
                "The same for reads that cannot be answered at once: pages of lists, objects that a webhook converts.",
            ),
            Flag(
                "fairness-long-seats",
                "int",
                8,
                "The same for long lists, deletions of collections and beginning watches.",
            ),
            Flag(
                "fairness-sign-in-seats",
                "int",
                64,
                "The same for requests whose caller is being authenticated, by address.",
            ),
            Flag(
                "fairness-seat-timeout",
                "duration",
                10.0,
                "How long a read keeps its seat while the client reads slowly.",
            ),
            Flag(
                "fairness-queue-length",
                "int",
                256,
                "Requests of one user, over all logical clusters, that may wait for their turn; four times as many of one logical cluster.",
            ),
            Flag(
                "fairness-queue-bytes",
                "int",
                128 << 20,
                "Bytes of request bodies that may wait in all; a quarter of them of one user, half of one logical cluster.",
            ),
            Flag(
                "fairness-queue-wait",
                "duration",
                15.0,
                "How long a request may wait before it is rejected with 429.",
            ),
            Flag(
                "fairness-watches-per-user",
                "int",
                4000,
                "Open watches of one user, over all logical clusters.",
            ),
            Flag(
                "fairness-watches-per-cluster",
                "int",
                8000,
                "Open watches of all users in one logical cluster.",
            ),
            Flag(
                "fairness-cost-per-user",
                "duration",
                0.25,
                "Time on the event loop per second that one user may take, over all logical clusters, before their requests yield to others.",
            ),
            Flag(
                "fairness-cost-per-cluster",
                "duration",
                0.5,
                "The same for all requests to one logical cluster.",
            ),
            Flag(
                "fairness-cost-per-address",
                "duration",
                0.1,
                "The same for requests of one address that are not authenticated, or whose authentication fails.",
            ),
            Flag(
                "fairness-cost-burst",
                "duration",
                0.1,
                "Time on the event loop that may be taken at once beyond that.",
            ),
            Flag(
                "stall-log-threshold",
                "duration",
                0.1,
                "How late the event loop may be before the log says what held it; 0 turns that off.",
            ),
            Flag(
                "worker-processes",
                "int",
                2,
                "Most processes that compute large requests beside the server; 0: none, so that a large request can delay others.",
            ),
            Flag(
                "worker-job-timeout",
                "duration",
                30.0,
                "How long a worker process may compute for one step of a request.",
            ),
            Flag(
                "worker-idle-timeout",
                "duration",
                10.0,
                "How long a worker process without work is kept.",
            ),
        ],
    ),
    (
        "Authentication",
        [
            Flag(
                "client-ca-file",
                "string",
                "",
                "CA bundle (PEM) that client certificates are checked against.",
            ),
            Flag(
                "token-auth-file",
                "string",
                "",
                'CSV file of static bearer tokens: token,user,uid,"group1,group2".',
            ),
            Flag(
                "anonymous-auth",
                "bool",
                True,
                "Let requests without credentials through as system:anonymous.",
            ),
            Flag(
                "api-audiences",
                "strings",
                [],
                "Audiences that service-account tokens are checked for; the issuer if not given.",
            ),
            Flag(
                "service-account-key-file",
                "strings",
                [],
                "Public or private keys (PEM) that service-account tokens are checked with; repeatable.",
            ),
            Flag(
                "service-account-signing-key-file",
                "string",
                "",
                "Private key (PEM) that service-account tokens are signed with.",
            ),
            Flag(
                "service-account-issuer",
                "strings",
                ["https://kcp.default.svc"],
                "Issuer of service-account tokens; the first one signs.",
            ),
            Flag(
                "service-account-lookup",
                "bool",
                True,
                "Refuse tokens whose service account or secret is gone.",
            ),
            Flag(
                "service-account-max-token-expiration",
                "duration",
                0.0,
                "Longest life of a token that may be asked for.",
            ),
            _ignored("service-account-extend-token-expiration", "bool", True),
            _ignored("service-account-jwks-uri"),
            Flag(
                "service-account-private-key-file",
                "string",
                "",
                "Private key (PEM) that the tokens in secrets are signed with; the signing key if not given.",
            ),
            Flag(
                "root-ca-file",
                "string",
                "",
                "CA bundle (PEM) that is published in kube-root-ca.crt and token secrets; the serving CA if not given.",
            ),
            _later("service-account-signing-endpoint"),
            _ignored("concurrent-serviceaccount-token-syncs", "int", 5),
            Flag(
                "requestheader-client-ca-file",
                "string",
                "",
                "CA bundle (PEM) of the proxies whose identity headers are believed.",
            ),
            Flag(
                "requestheader-allowed-names",
                "strings",
                [],
                "Common names of such proxies; all that the CA signed if empty.",
            ),
            Flag(
                "requestheader-username-headers",
                "strings",
                ["X-Remote-User"],
                "Headers that carry the user name.",
            ),
            Flag(
                "requestheader-uid-headers",
                "strings",
                ["X-Remote-Uid"],
                "Headers that carry the user's uid.",
            ),
            Flag(
                "requestheader-group-headers",
                "strings",
                ["X-Remote-Group"],
                "Headers that carry groups.",
            ),
            Flag(
                "requestheader-extra-headers-prefix",
                "strings",
                ["X-Remote-Extra-"],
                "Prefixes of headers that carry extra attributes.",
            ),
            Flag(
                "authentication-config",
                "string",
                "",
                "File with an AuthenticationConfiguration: JWT issuers and anonymous access; read again when it changes.",
            ),
            Flag(
                "authentication-token-webhook-config-file",
                "string",
                "",
                "Kubeconfig of a webhook that knows who holds a bearer token.",
            ),
            Flag(
                "authentication-token-webhook-cache-ttl",
                "duration",
                120.0,
                "How long to remember its answers.",
            ),
            Flag(
                "authentication-token-webhook-version",
                "string",
                "v1beta1",
                "Version of TokenReview that it speaks: v1 or v1beta1.",
            ),
            Flag(
                "enable-bootstrap-token-auth",
                "bool",
                False,
                "Accept bootstrap tokens: secrets of type bootstrap.kubernetes.io/token in kube-system.",
            ),
            Flag(
                "oidc-issuer-url",
                "string",
                "",
                "OpenID Connect issuer whose tokens are accepted; an https URL.",
            ),
            Flag("oidc-client-id", "string", "", "Audience that tokens of the issuer must be for."),
            Flag(
                "oidc-ca-file",
                "string",
                "",
                "CA bundle (PEM) of the issuer's server; the host's if not given.",
            ),
            Flag("oidc-username-claim", "string", "sub", "Claim that is the user's name."),
            Flag(
                "oidc-username-prefix",
                "string",
                "",
                "What to put before names; the issuer and # if not given, unless the claim is email; - for nothing.",
            ),
            Flag("oidc-groups-claim", "string", "", "Claim that holds the user's groups."),
            Flag("oidc-groups-prefix", "string", "", "What to put before groups."),
            Flag(
                "oidc-signing-algs",
                "strings",
                ["RS256"],
                "Signature algorithms to accept: RS, PS and ES with 256, 384 or 512, EdDSA.",
            ),
            Flag(
                "oidc-required-claim",
                "pair",
                {},
                "Claim and value that tokens must have, claim=value; repeatable.",
            ),
            _ignored("proxy-client-cert-file"),
            _ignored("proxy-client-key-file"),
        ],
    ),
    (
        "Authorization",
        [
            Flag(
                "authorization-order",
                "strings",
                ["AlwaysAllowGroups", "AlwaysAllowPaths", "RBAC", "Webhook"],
                "Authorizers in the order in which they are asked.",
            ),
            Flag(
                "authorization-always-allow-paths",
                "strings",
                ["/healthz", "/readyz", "/livez"],
                "Paths open to everybody; a trailing * matches a prefix.",
            ),
            Flag(
                "authorization-webhook-config-file",
                "string",
                "",
                "Kubeconfig of a webhook that is asked for permission.",
            ),
            Flag(
                "authorization-webhook-version",
                "string",
                "v1beta1",
                "Version of SubjectAccessReview that it speaks: v1 or v1beta1.",
            ),
            Flag(
                "authorization-webhook-cache-authorized-ttl",
                "duration",
                300.0,
                "How long to remember what it allows.",
            ),
            Flag(
                "authorization-webhook-cache-unauthorized-ttl",
                "duration",
                30.0,
                "How long to remember what it does not allow.",
            ),
        ],
    ),
    (
        "Storage",
        [
            Flag(
                "etcd-servers",
                "strings",
                [],
                "etcd to store everything in; an embedded store in the root directory if not given.",
            ),
            Flag(
                "store-size-limit",
                "int",
                8 << 30,
                "Bytes that the store may hold, in the root directory or in etcd; above that only deletions and changes that do not add to it are accepted. 0 is no limit.",
            ),
            Flag("etcd-prefix", "string", "/registry", "Prefix of all keys in etcd."),
            Flag("etcd-certfile", "string", "", "Client certificate (PEM) for etcd."),
            Flag("etcd-keyfile", "string", "", "Key of the client certificate for etcd."),
            Flag("etcd-cafile", "string", "", "CA bundle (PEM) of etcd's servers."),
            Flag("event-ttl", "duration", 3600.0, "How long events are kept."),
            Flag(
                "workspace-undelete-window",
                "duration",
                0.0,
                "How long deleted workspaces are kept so that they can be brought back; 0: not at all.",
            ),
            _ignored("etcd-compaction-interval", "duration", 300.0),
            _ignored("etcd-count-metric-poll-period", "duration", 60.0),
            _ignored("etcd-db-metric-poll-interval", "duration", 30.0),
            _ignored("etcd-healthcheck-timeout", "duration", 2.0),
            _ignored("etcd-readycheck-timeout", "duration", 2.0),
            _ignored("etcd-servers-overrides", "strings", []),
            _ignored("storage-backend"),
            _ignored("storage-media-type", "string", "application/json"),
            _ignored("storage-initialization-timeout", "duration", 60.0),
            _ignored("lease-reuse-duration-seconds", "int", 60),
            _ignored("watch-cache", "bool", True),
            _ignored("watch-cache-sizes", "strings", []),
            Flag(
                "encryption-provider-config",
                "string",
                "",
                "File with an EncryptionConfiguration: which resources are encrypted at rest, and how.",
            ),
            Flag(
                "encryption-provider-config-automatic-reload",
                "bool",
                False,
                "Take changes of the encryption configuration over without a restart.",
            ),
            *[
                _ignored(f"embedded-etcd-{n}")
                for n in (
                    "directory",
                    "client-port",
                    "peer-port",
                    "listen-metrics-urls",
                    "wal-size-bytes",
                    "quota-backend-bytes",
                )
            ],
            _ignored("embedded-etcd-force-new-cluster", "bool", False),
        ],
    ),
    ("Audit", AUDIT_FLAGS),
    (
        "Logs",
        [
            Flag(
                "v",
                "int",
                2,
                "How much to log; 0 only warnings, 2 the ordinary, 4 and more for debugging.",
            ),
            Flag("logging-format", "string", "text", "Form of the log: text or json."),
            _ignored("vmodule"),
            _ignored("log-flush-frequency", "duration", 5.0),
            _ignored("log-json-info-buffer-size"),
            _ignored("log-json-split-stream", "bool", False),
            _ignored("log-text-info-buffer-size"),
            _ignored("log-text-split-stream", "bool", False),
            _ignored("tracing-config-file"),
            _ignored("profiling", "bool", True),
            _ignored("debug-socket-path"),
            _ignored("enable-logs-handler", "bool", True),
            _ignored("contention-profiling", "bool", False),
            _ignored("show-hidden-metrics-for-version"),
            _ignored("allow-metric-labels", "strings", []),
            _ignored("allow-metric-labels-manifest"),
            _ignored("disabled-metrics", "strings", []),
        ],
    ),
]

START_FLAGS = FlagSet(SECTIONS, short={"v": "v"})


def settings_from(values: dict[str, Any]) -> ShardSettings:
    """The settings that a parsed command line asks for."""
    return ShardSettings(
        root_directory=pathlib.Path(values["root-directory"]),
        bind_address=values["bind-address"],
        secure_port=values["secure-port"],
        bind_free_port=values["experimental-bind-free-port"],
        external_hostname=values["external-hostname"],
        shard_name=values["shard-name"],
        shard_base_url=values["shard-base-url"],
        shard_external_url=values["shard-external-url"],
        shard_virtual_workspace_url=values["shard-virtual-workspace-url"],
        shard_virtual_workspace_ca_file=values["shard-virtual-workspace-ca-file"],
        shard_client_cert_file=values["shard-client-cert-file"],
        shard_client_key_file=values["shard-client-key-file"],
        run_virtual_workspaces=values["run-virtual-workspaces"],
        mount_proxy_client_cert_file=values["mount-proxy-client-cert-file"],
        mount_proxy_client_key_file=values["mount-proxy-client-key-file"],
        mount_proxy_ca_file=values["mount-proxy-ca-file"],
        tenant_egress_allow=tuple(values["tenant-egress-allow"]),
        tenant_egress_deny=tuple(values["tenant-egress-deny"]),
        tenant_egress_connections=values["tenant-egress-connections"],
        tenant_egress_forwards=values["tenant-egress-forwards"],
        root_identities_file=values["root-identities-file"],
        home_workspaces=values["enable-home-workspaces"],
        home_creator_groups=tuple(values["home-workspaces-home-creator-groups"]),
        client_ca_file=values["client-ca-file"],
        tls_cert_file=values["tls-cert-file"],
        tls_private_key_file=values["tls-private-key-file"],
        tls_min_version=values["tls-min-version"],
        token_auth_file=values["token-auth-file"],
        anonymous_auth=values["anonymous-auth"],
        sign_in=_sign_in(values),
        api_audiences=tuple(values["api-audiences"]),
        service_account_key_files=tuple(values["service-account-key-file"]),
        service_account_signing_key_file=values["service-account-signing-key-file"],
        service_account_issuer=values["service-account-issuer"][0],
        service_account_private_key_file=values["service-account-private-key-file"],
        root_ca_file=values["root-ca-file"],
        service_account_lookup=values["service-account-lookup"],
        service_account_max_expiration=values["service-account-max-token-expiration"],
        requestheader_client_ca_file=values["requestheader-client-ca-file"],
        requestheader_allowed_names=tuple(values["requestheader-allowed-names"]),
        requestheader_username_headers=tuple(values["requestheader-username-headers"]),
        requestheader_group_headers=tuple(values["requestheader-group-headers"]),
        requestheader_uid_headers=tuple(values["requestheader-uid-headers"]),
        requestheader_extra_headers_prefix=tuple(values["requestheader-extra-headers-prefix"]),
        authorization_always_allow_paths=tuple(values["authorization-always-allow-paths"]),
        authorization_order=tuple(values["authorization-order"]),
        batteries=_batteries(values["batteries-included"]),
        kubeconfig_path=values["kubeconfig-path"],
        admin_token_path=values["authentication-admin-token-path"],
        event_ttl=values["event-ttl"],
        workspace_undelete_window=values["workspace-undelete-window"],
        run_controllers=values["run-controllers"],
        total_object_limit=values["logical-cluster-total-object-limit"],
        tenant_object_limits=values["logical-cluster-object-limit-by-tenants"],
        store_size_limit=max(0, values["store-size-limit"]),
        wire=wire_settings(values),
        fairness=values["fairness"],
        fairness_seats=values["fairness-seats"],
        fairness_read_seats=values["fairness-read-seats"],
        fairness_long_seats=values["fairness-long-seats"],
        fairness_sign_in_seats=values["fairness-sign-in-seats"],
        fairness_seat_timeout=values["fairness-seat-timeout"],
        fairness_queue_length=values["fairness-queue-length"],
        fairness_queue_bytes=values["fairness-queue-bytes"],
        fairness_queue_wait=values["fairness-queue-wait"],
        fairness_watches_per_user=values["fairness-watches-per-user"],
        fairness_watches_per_cluster=values["fairness-watches-per-cluster"],
        fairness_cost_per_user=values["fairness-cost-per-user"],
        fairness_cost_per_cluster=values["fairness-cost-per-cluster"],
        fairness_cost_per_address=values["fairness-cost-per-address"],
        fairness_cost_burst=values["fairness-cost-burst"],
        stall_log_threshold=values["stall-log-threshold"],
        workers=WorkerSettings(
            processes=values["worker-processes"],
            idle_seconds=values["worker-idle-timeout"],
            job_seconds=values["worker-job-timeout"],
        ),
        etcd_servers=tuple(values["etcd-servers"]),
        etcd_prefix=values["etcd-prefix"],
        etcd_certfile=values["etcd-certfile"],
        etcd_keyfile=values["etcd-keyfile"],
        etcd_cafile=values["etcd-cafile"],
        audit=audit_settings(values),
        encryption_provider_config=values["encryption-provider-config"],
        encryption_provider_config_reload=values["encryption-provider-config-automatic-reload"],
        feature_gates=_gates(values["feature-gates"]),
        verbosity=values["v"],
        logging_format=values["logging-format"],
    )


def _sign_in(values: dict[str, Any]) -> SignInSettings:
    given: set[str] = values[""]
    return SignInSettings(
        authentication_config=values["authentication-config"],
        oidc_issuer_url=values["oidc-issuer-url"],
        oidc_client_id=values["oidc-client-id"],
        oidc_ca_file=values["oidc-ca-file"],
        oidc_username_claim=values["oidc-username-claim"],
        oidc_username_prefix=values["oidc-username-prefix"],
        oidc_groups_claim=values["oidc-groups-claim"],
        oidc_groups_prefix=values["oidc-groups-prefix"],
        oidc_signing_algs=tuple(values["oidc-signing-algs"]),
        oidc_required_claim=values["oidc-required-claim"],
        is_any_oidc_given=any(name.startswith("oidc-") for name in given),
        is_anonymous_given="anonymous-auth" in given,
        token_webhook_config_file=values["authentication-token-webhook-config-file"],
        token_webhook_version=values["authentication-token-webhook-version"],
        token_webhook_cache_ttl=values["authentication-token-webhook-cache-ttl"],
        authorization_webhook_config_file=values["authorization-webhook-config-file"],
        authorization_webhook_version=values["authorization-webhook-version"],
        authorization_webhook_cache_authorized_ttl=values[
            "authorization-webhook-cache-authorized-ttl"
        ],
        authorization_webhook_cache_unauthorized_ttl=values[
            "authorization-webhook-cache-unauthorized-ttl"
        ],
        bootstrap_tokens=values["enable-bootstrap-token-auth"],
    )


def _batteries(names: list[str]) -> frozenset[str]:
    """`+x` and `-x` change the default, plain names replace it."""
    changes = [n for n in names if n[:1] in "+-"]
    plain = {n for n in names if n[:1] not in "+-"}
    chosen = plain or {"workspace-types", "admin"}
    for change in changes:
        (chosen.add if change[0] == "+" else chosen.discard)(change[1:])
    return frozenset(chosen)


def _gates(given: dict[str, str]) -> dict[str, bool]:
    chosen: dict[str, bool] = {}
    problems = []
    for name, text in given.items():
        if name not in GATES:
            problems.append(f"unrecognized feature gate: {name}")
        elif text.lower() not in ("true", "false"):
            problems.append(f"invalid value of {name}: {text}, must be true or false")
        else:
            chosen[name] = text.lower() == "true"
    if problems:
        raise FlagError("\n".join(problems))
    return chosen
