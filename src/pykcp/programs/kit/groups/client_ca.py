"""Client certificates: which authorities are trusted to sign them."""

from __future__ import annotations

import pathlib

from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.programs.kit.checks import ca_bundle
from pykcp.programs.kit.options import OptionGroup, option


class ClientCAOptions(OptionGroup):
    TITLE = "Client certificates"

    client_ca_file: str = option(
        "CA bundle (PEM) that client certificates are verified with.", "", check=ca_bundle
    )

    def bundle(self) -> bytes | None:
        """The authorities, if they are given."""
        return pathlib.Path(self.client_ca_file).read_bytes() if self.client_ca_file else None

    def authenticator(self) -> ClientCertificates | None:
        """It reads the bundle again when the file was replaced."""
        if not self.client_ca_file:
            return None
        return ClientCertificates(CertificateVerifier.of_file(self.client_ca_file))
