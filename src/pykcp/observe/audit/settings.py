"""The settings of the audit trail, with upstream's defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

MODES = ("batch", "blocking", "blocking-strict")
FORMATS = ("legacy", "json")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    mode: str = "batch"
    buffer_size: int = 10000
    max_size: int = 400
    max_wait: float = 30.0
    throttle: bool = True
    throttle_qps: float = 10.0
    throttle_burst: int = 15

    def problems(self, plugin: str) -> list[str]:
        if self.mode not in MODES:
            allowed = ",".join(MODES)
            return [f'invalid audit {plugin} mode {self.mode}, allowed modes are "{allowed}"']
        if self.mode != "batch":
            return []
        start = f"invalid audit batch {plugin}"
        checks: tuple[tuple[str, float], ...] = (
            ("buffer size", self.buffer_size),
            ("max batch size", self.max_size),
        )
        if self.throttle:
            checks += (
                ("throttle QPS", self.throttle_qps),
                ("throttle burst", self.throttle_burst),
            )
        return [f"{start} {w} {v:g}, must be a positive number" for w, v in checks if v <= 0]


LOG_BATCH = BatchSettings("blocking", max_size=1, max_wait=0.0, throttle=False, throttle_qps=0.0,
                          throttle_burst=0)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TruncateSettings:
    enabled: bool = False
    max_batch_size: int = 10 * 1024 * 1024
    max_event_size: int = 100 * 1024

    def problems(self, plugin: str) -> list[str]:
        if not self.enabled:
            return []
        start = f"invalid audit truncate {plugin}"
        if self.max_event_size <= 0:
            size = self.max_event_size
            return [f"{start} max event size {size}, must be a positive number"]
        if self.max_batch_size < self.max_event_size:
            least = f"must be greater than max event size ({self.max_event_size})"
            return [f"{start} max batch size {self.max_batch_size}, {least}"]
        return []


@dataclass(frozen=True, slots=True)
class LogSettings:
    path: str = ""
    """`-`: standard output."""
    max_age: int = 366
    """Days."""
    max_backups: int = 100
    max_size: int = 100
    """Megabytes; 0: the file is never rotated."""
    compress: bool = False
    format: str = "json"
    batch: BatchSettings = LOG_BATCH
    truncate: TruncateSettings = field(default_factory=TruncateSettings)
    is_shared: bool = False
    """Other processes of this server append to the same file."""
    rotates: bool = True
    """False: one of them rotates it."""

    def problems(self) -> list[str]:
        if not self.path:
            return []
        out = self.batch.problems("log") + self.truncate.problems("log")
        if self.format not in FORMATS:
            allowed = ",".join(FORMATS)
            out.append(f'invalid audit log format {self.format}, allowed formats are "{allowed}"')
        for name, value in (
            ("maxage", self.max_age),
            ("maxbackup", self.max_backups),
            ("maxsize", self.max_size),
        ):
            if value < 0:
                out.append(f"--audit-log-{name} {value} can't be a negative number")
        return out


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    config_file: str = ""
    initial_backoff: float = 10.0
    batch: BatchSettings = field(default_factory=BatchSettings)
    truncate: TruncateSettings = field(default_factory=TruncateSettings)

    def problems(self) -> list[str]:
        if not self.config_file:
            return []
        return self.batch.problems("webhook") + self.truncate.problems("webhook")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    policy_file: str = ""
    log: LogSettings = field(default_factory=LogSettings)
    webhook: WebhookSettings = field(default_factory=WebhookSettings)

    @property
    def is_on(self) -> bool:
        """Nothing is recorded without a policy and somewhere to write to, as upstream has it."""
        return bool(self.policy_file and (self.log.path or self.webhook.config_file))

    def problems(self) -> list[str]:
        return self.log.problems() + self.webhook.problems()
