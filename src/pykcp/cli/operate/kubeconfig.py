"""`kcp kubeconfig print`: a kubeconfig of the installation, that of the administrator by default."""

from __future__ import annotations

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.cli.server import unknown_command


def _kubeconfig(given: Given) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.layout import HostFiles

    command, *names = given.words
    if command != "print":
        return unknown_command(command, "kcp kubeconfig", ("print",))
    files = HostFiles(given.root)
    path = files.kubeconfig(names[0]) if names else files.admin_kubeconfig
    if not path.is_file():
        known = sorted(one.stem for one in path.parent.glob("*.kubeconfig"))
        raise SettingsError(
            f"{path} does not exist; Kubeconfig objects: {', '.join(known) or 'none'}"
        )
    print(path.read_text(), end="")
    return 0


KUBECONFIG = HostCommand(
    "Print a kubeconfig: that of a Kubeconfig object, or an administrator's through the front-proxy.\n\n"
    "Usage:\n  kcp kubeconfig print [NAME]\n",
    _kubeconfig,
    least=1,
    most=2,
)
