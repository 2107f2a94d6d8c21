"""What every command needs: flags for the connection, the kubeconfig, a client."""

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
    PluginFlag("kubeconfig", "string", "The kubeconfig file to use.", "", choices="files"),
    PluginFlag(
        "context", "string", "The context of the kubeconfig to use.", "", choices="contexts"
    ),
    PluginFlag(
        "cluster", "string", "The cluster of the kubeconfig to use.", "", choices="clusters"
    ),
    PluginFlag("user", "string", "The user of the kubeconfig to act as.", "", choices="users"),
    PluginFlag("namespace", "string", "The namespace of this request.", "", "n"),
    PluginFlag("server", "string", "Address of the server, instead of the kubeconfig's.", ""),
    PluginFlag(
        "tls-server-name", "string", "The name that the server's certificate must carry.", ""
    ),
    PluginFlag(
        "certificate-authority",
        "string",
        "A file with the certificate authority to trust.",
        "",
        choices="files",
    ),
    PluginFlag(
        "insecure-skip-tls-verify",
        "bool",
        "Do not check the server's certificate. Anybody in between can read and change everything.",
        False,
    ),
    PluginFlag("proxy-url", "string", "The proxy to go through.", ""),
    PluginFlag("disable-compression", "bool", "Ask for answers that are not compressed.", False),
    PluginFlag("token", "string", "A bearer token to be known by.", ""),
    PluginFlag("username", "string", "A name for basic authentication.", ""),
    PluginFlag("password", "string", "A password for basic authentication.", ""),
    PluginFlag(
        "client-certificate", "string", "A file with a client certificate.", "", choices="files"
    ),
    PluginFlag(
        "client-key", "string", "A file with the client certificate's key.", "", choices="files"
    ),
    PluginFlag("as", "string", "A user to act for (impersonate).", ""),
    PluginFlag("as-group", "list", "A group to act for; may be given several times."),
    PluginFlag("as-uid", "string", "The UID of the user to act for.", ""),
    PluginFlag("as-user-extra", "list", "More about the user to act for: key=value."),
    PluginFlag(
        "request-timeout",
        "string",
        "How long one request may take: 1s, 2m, 3h; 0 is without end.",
        "0",
    ),
)

WORKSPACE_FLAG = PluginFlag(
    "workspace",
    "string",
    "The workspace to act in, instead of the current one: ':root:a' is absolute, 'a' is below the "
    "current one, '..' is its parent.",
    "",
    "w",
    choices="workspaces",
)

LOG_FLAGS = (
    PluginFlag("v", "int", "How much to tell about what is done; 6 shows the requests.", 0, "v"),
    *(
        # kcp's plugins have them; they steer log files that are never written here
        PluginFlag(name, kind, "Accepted, without effect.", is_hidden=True)
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

    def current(self, words: str = "does not point to a workspace") -> str:
        """The path of the workspace that the server's URL points to."""
        host = self.target().host
        found = cluster_of_url(host)
        if found is None:
            raise PluginError(f"current URL {quote(host)} {words}")
        return found.path
