"""Traces: where spans are sent."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.options import OptionGroup, option
from pykcp.wire.exchange import Application


def _usable(flag: str, path: str) -> Iterator[str]:
    if not path:
        return
    from importlib.util import find_spec

    from pykcp.observe.tracing import BadTracingConfig, load_tracing_config

    try:
        load_tracing_config(pathlib.Path(path))
    except (BadTracingConfig, OSError) as error:
        yield f"--{flag}: {error}"
    if find_spec("opentelemetry") is None:
        yield f'--{flag} needs an extra that is not installed: pip install "pykcp[otel]"'


class TracingOptions(OptionGroup):
    TITLE = "Traces"

    tracing_config_file: str = option(
        "File with a TracingConfiguration (apiserver.config.k8s.io): the collector that spans are sent to, and how many requests are recorded. Needs OpenTelemetry (pykcp[otel]).",
        "",
        check=_usable,
    )

    def traced(self, application: Application, service: str) -> Application:
        """The application, with its requests recorded if a collector is configured."""
        if not self.tracing_config_file:
            return application
        from pykcp.observe.tracing import install, load_tracing_config, make_recorder
        from pykcp.server.filters.traced import TracedApplication

        config = load_tracing_config(pathlib.Path(self.tracing_config_file))
        recorder = make_recorder(config, service)
        install(recorder)
        return TracedApplication(application, recorder)

    def stop(self) -> None:
        """Send what is recorded."""
        if not self.tracing_config_file:
            return
        from pykcp.observe.tracing import install, installed

        recorder = installed()
        install(None)
        if recorder is not None:
            recorder.close()
