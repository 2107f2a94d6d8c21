"""What every command needs: connection flags, the kubeconfig, a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykcp.cli.plugins.access.client_config import ClientConfig, ServerTarget
from pykcp.cli.plugins.access.kubeconfig import files_of_environment
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.shell.flags import PluginFlag
from pykcp.cli.plugins.workspace.paths import cluster_of_url, url_of_workspace

if TYPE_CHECKING:
    # HTTP and TLS are slow to import; `kubectl ws .` in a prompt needs neither
    from pykcp.cli.plugins.access.rest import RestClient

Object = dict[str, Any]

CONNECTION_FLAGS = (
    PluginFlag("kubeconfig", "string", "Path of the kubeconfig file.", "", choices="files"),
    PluginFlag("context", "string", "Context of the kubeconfig to use.", "", choices="contexts"),
    PluginFlag("cluster", "string", "Cluster of the kubeconfig to use.", "", choices="clusters"),
    PluginFlag("user", "string", "User of the kubeconfig to use.", "", choices="users"),
    PluginFlag("namespace", "string", "Namespace of the request.", "", "n"),
    PluginFlag("server", "string", "URL of the server; overrides the kubeconfig.", ""),
    PluginFlag(
        "tls-server-name", "string", "Server name used to verify the server's certificate.", ""
    ),
    PluginFlag(
        "certificate-authority",
        "string",
        "File with the CA certificate of the server.",
        "",
        choices="files",
    ),
    PluginFlag(
        "insecure-skip-tls-verify",
        "bool",
        "Do not verify the server's certificate. This makes connections insecure.",
        False,
    ),
    PluginFlag("proxy-url", "string", "URL of a proxy.", ""),
    PluginFlag("disable-compression", "bool", "Request uncompressed responses.", False),
    PluginFlag("token", "string", "Bearer token for authentication.", ""),
    PluginFlag("username", "string", "Username for basic authentication.", ""),
    PluginFlag("password", "string", "Password for basic authentication.", ""),
    PluginFlag(
        "client-certificate", "string", "File with the client certificate.", "", choices="files"
    ),
    PluginFlag(
        "client-key", "string", "File with the key of the client certificate.", "", choices="files"
    ),
    PluginFlag("as", "string", "Username to impersonate.", ""),
    PluginFlag("as-group", "list", "Group to impersonate; can be repeated."),
    PluginFlag("as-uid", "string", "UID to impersonate.", ""),
    PluginFlag("as-user-extra", "list", "Extra attributes to impersonate, as key=value."),
    PluginFlag(
        "request-timeout",
        "string",
        "Timeout of a single request: 1s, 2m, 3h; 0 means no timeout.",
        "0",
    ),
)

WORKSPACE_FLAG = PluginFlag(
    "workspace",
    "string",
    "Workspace to use instead of the current one: ':root:a' is an absolute path, 'a' a child of "
    "the current one, '..' its parent.",
    "",
    "w",
    choices="workspaces",
)

LOG_FLAGS = (
    PluginFlag("v", "int", "Log verbosity; 6 shows the requests.", 0, "v"),
    *(
        # flags of kcp's plugins for log files, which are never written here
        PluginFlag(name, kind, "Accepted for compatibility; ignored.", is_hidden=True)
        for name, kind in (
            ("add_dir_header", "bool"),
            ("alsologtostderr", "bool"),
            ("alsologtostderrthreshold", "string"),
            ("legacy_stderr_threshold_behavior", "bool"),
            ("log_backtrace_at", "string"),
            ("log_dir", "string"),
            ("log_file", "string"),
            ("log_file_max_size", "string"),
            ("logtostderr", "bool"),
            ("one_output", "bool"),
            ("skip_headers", "bool"),
            ("skip_log_headers", "bool"),
            ("stderrthreshold", "string"),
            ("vmodule", "string"),
        )
    ),
)


class Session:
    """One command's view of the kubeconfig and the server."""

    def __init__(self, invocation: CommandInvocation) -> None:
        self.invocation = invocation
        workspace = invocation.get("workspace") or ""
        self.config = ClientConfig(
            files_of_environment(invocation["kubeconfig"]),
            invocation.values,
            (lambda host: url_of_workspace(host, workspace)) if workspace else None,
        )
        self._client: RestClient | None = None

    def target(self) -> ServerTarget:
        return self.config.target()

    @property
    def client(self) -> RestClient:
        if self._client is None:
            from pykcp.cli.plugins.access.rest import RestClient

            self._client = RestClient(self.target(), self.invocation.get("v") or 0)
        return self._client

    def namespace(self) -> str:
        """The namespace of the context; `default` if it has none."""
        return self.config.namespace() or "default"

    def current(self, words: str = "does not point to a workspace") -> str:
        """The path of the workspace that the server's URL points to."""
        host = self.target().host
        found = cluster_of_url(host)
        if found is None:
            raise PluginError(f"current URL {quote(host)} {words}")
        return found.path
