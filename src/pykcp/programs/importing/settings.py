"""The settings of `kcp import`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykcp.programs.kit.checks import ca_bundle, key_pairs, loaded_by
from pykcp.programs.kit.config_file import read_config
from pykcp.programs.kit.flags import FlagError, FlagSet
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings

if TYPE_CHECKING:
    from pykcp.storage.etcd.settings import EtcdSettings


def _load_encryption(path: str) -> None:
    from pykcp.programs.importing.decryption import Decryption

    Decryption(path)


class SourceOptions(OptionGroup):
    """Where one shard of a kcp is read."""

    TITLE = "Import"

    from_etcd: tuple[str, ...] = option("Servers of the etcd in which a kcp stores its data.", ())
    from_etcd_prefix: str = option("Prefix of the keys of that kcp.", "/registry")
    from_etcd_certfile: str = option("Client certificate (PEM) for that etcd.", "")
    from_etcd_keyfile: str = option("Key of --from-etcd-certfile.", "")
    from_etcd_cafile: str = option("CA bundle (PEM) of that etcd's servers.", "", check=ca_bundle)
    from_encryption_provider_config: str = option(
        "EncryptionConfiguration of that kcp, if it encrypts its objects in etcd: aescbc, aesgcm and secretbox.",
        "",
        check=loaded_by(_load_encryption),
    )
    from_kubeconfig: str = option(
        "Kubeconfig of a running kcp to read from by its API; the context must be that of the shard's administrator (system:admin in kcp's admin.kubeconfig).",
        "",
    )
    from_context: str = option("Context of --from-kubeconfig.", "system:admin")
    from_root_directory: str = option(
        "Root directory of that kcp: its certificates, the key of service accounts and the tokens of its kubeconfig are taken over, so that clients go on working.",
        "",
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if bool(self.from_etcd) == bool(self.from_kubeconfig):
            yield "one of --from-etcd and --from-kubeconfig must be given"
        yield from key_pairs(
            "from-etcd-certfile",
            self.from_etcd_certfile,
            "from-etcd-keyfile",
            self.from_etcd_keyfile,
        )
        given = self.from_root_directory
        if given and not (pathlib.Path(given) / "admin.kubeconfig").is_file():
            yield f"--from-root-directory: {given} has no admin.kubeconfig"

    def etcd(self) -> EtcdSettings:
        from pykcp.storage.etcd.settings import EtcdSettings

        return EtcdSettings(
            servers=self.from_etcd,
            prefix=self.from_etcd_prefix,
            certfile=self.from_etcd_certfile,
            keyfile=self.from_etcd_keyfile,
            cafile=self.from_etcd_cafile,
        )


class ImportOptions(SourceOptions):
    """The root shard, and what else there is."""

    from_shards: tuple[str, ...] = option(
        "Files that say where the other shards of that kcp are read: YAML with the flags --from-… of each, without `--`.",
        (),
    )
    dry_run: bool = option("Print what would be imported, and change nothing.", False)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for path in self.from_shards:
            try:
                found = _read_shard(path)
            except FlagError as error:
                yield from str(error).splitlines()
            else:
                yield from (f"{path}: {problem}" for problem in found.problems())

    def shards(self) -> list[SourceOptions]:
        """The root shard first. Raises FlagError."""
        return [self, *map(_read_shard, self.from_shards)]


def _read_shard(path: str) -> SourceOptions:
    shard = SourceOptions()
    flags = FlagSet([(shard.TITLE, shard.flags())])
    return shard.with_given(read_config(path, flags, "from-shards"))


class ImportSettings(ProgramSettings):
    COMMAND = "kcp import"

    importing: ImportOptions = ImportOptions()
    generic: RootDirectoryOptions = RootDirectoryOptions()
    logging: LoggingOptions = LoggingOptions()
