"""gunicorn's own messages in the service's log format. In a module of its own: only gunicorn loads it."""

import logging
import sys

from gunicorn.config import Config
from gunicorn.glogging import Logger

from service.settings import Settings
from service.telemetry import logs


class StructuredLogger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """Its access log stays off: the service writes one line per request itself, with route and request id."""

    def setup(self, cfg: Config) -> None:
        """Called at start and at each reload of the configuration, so the handler is built anew each time."""
        super().setup(cfg)
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logs.formatter(Settings.from_environment().log_format))
        self.error_log.handlers = [handler]
