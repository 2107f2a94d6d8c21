"""Logs: one line per event, as text in klog's shape or as JSON."""

from __future__ import annotations

import logging
import sys
import time

import orjson

_LETTERS = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}


class TextFormatter(logging.Formatter):
    """klog's header, so that existing log tools understand it."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1_000_000)
        head = (
            f"{_LETTERS.get(record.levelname, 'I')}{time.strftime('%m%d %H:%M:%S', moment)}.{micros:06d}"
            f" {record.process:7d} {record.module}.py:{record.lineno}] "
        )
        text = head + record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "caller": f"{record.module}.py:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def set_up(verbosity: int, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    root.setLevel(level)
    for chatty in ("asyncio", "aiohttp"):
        logging.getLogger(chatty).setLevel(max(level, logging.INFO))
