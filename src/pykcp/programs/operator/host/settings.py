"""The settings of `kcp up`."""

from __future__ import annotations

import ipaddress
import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.checks import choice, plain_address
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings

VARIANTS = ("dekker", "vespucci", "comer", "zheng")


class UpOptions(OptionGroup):
    TITLE = "Installation"

    filename: str = option(
        "File or directory of manifests. Kept for the next start; `manifests` in the root directory if a variant was chosen.",
        "",
    )
    variant: str = option(
        "Begin with the manifests of a reference installation: dekker, vespucci, comer or zheng. Existing manifests are not replaced.",
        "",
        check=choice("", *VARIANTS),
    )
    domain: str = option(
        "Domain of the host names of a variant (api.DOMAIN, root.DOMAIN, …); addresses of this machine if it is not given.",
        "",
    )
    host: str = option(
        "Name of this host: objects whose annotation operator.kcp.io/host names another host are configured, but not run here. If it is not given, everything is run here.",
        "",
    )
    bind_address: str = option(
        "IP address of programs that their manifests do not expose.", "127.0.0.1"
    )
    exposed_address: str = option(
        "IP address of programs that their manifests expose (Services of type LoadBalancer or NodePort).",
        "0.0.0.0",  # noqa: S104  # they are exposed
    )
    host_names: tuple[str, ...] = option(
        "Further names of this host, for serving certificates.", ()
    )
    first_port: int = option("First port of programs that their manifests give none.", 6444)
    metrics_bind_address: str = option(
        "Address of the supervisor's /metrics, and of /targets, the list of processes for Prometheus' HTTP service discovery; 0 for none. It is served without TLS: 127.0.0.1:9100 for instance.",
        "0",
        check=plain_address,
    )
    systemd: str = option(
        "Write systemd units to this directory in place of running the programs. Call it again after changes.",
        "",
    )
    systemd_user: str = option(
        "User that the units run as, and to whom the root directory belongs; that of systemd if it is not given.",
        "",
    )
    systemd_wait: bool = option(
        "With --systemd: return when the programs are ready, shards are registered and users have their roles; with code 1 if that takes longer than --timeout. The service of the daily timer does so.",
        False,
    )
    detach: bool = option("Return when everything is ready; the supervisor goes on.", False)
    leave_running: bool = option(
        "When stopped by a signal, leave the programs running: the next `kcp up` goes on with them.",
        False,
    )
    timeout: float = option(
        "How long to wait until everything is ready, with --detach or --systemd-wait.", 300.0
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.variant and self.filename:
            yield "--variant and --filename cannot be used together"
        if self.domain and not self.variant:
            yield "--domain requires --variant"
        if self.systemd and self.detach:
            yield "--systemd and --detach cannot be used together"
        for flag, value in (
            ("systemd-user", self.systemd_user),
            ("systemd-wait", self.systemd_wait),
        ):
            if value and not self.systemd:
                yield f"--{flag} requires --systemd"
        for flag, address in (
            ("bind-address", self.bind_address),
            ("exposed-address", self.exposed_address),
        ):
            try:
                ipaddress.ip_address(address)
            except ValueError:
                yield f"--{flag} {address!r} is not an IP address"
        if not 1 <= self.first_port <= 65000:
            yield "--first-port must be between 1 and 65000"


class UpSettings(ProgramSettings):
    COMMAND = "kcp up"
    SHORT = {"v": "v", "f": "filename", "d": "detach"}  # noqa: RUF012  # as in the base class

    generic: RootDirectoryOptions = RootDirectoryOptions(root_directory=pathlib.Path(".kcp"))
    up: UpOptions = UpOptions()
    logging: LoggingOptions = LoggingOptions(verbosity=0)
