"""Learning now and then while a server runs: in a process of its own, so that no quote waits for statistics."""

import logging
import random
import subprocess
import sys
from collections.abc import Sequence
from threading import Event, Thread
from typing import Final

from sqlalchemy import Engine

from service.api.services import Keeper
from service.domain.errors import CatalogUnavailable
from service.storage.learning_news import has_news

_logger: Final = logging.getLogger(__name__)
_COMMAND: Final = (sys.executable, "-m", "service.cli", "measurements", "learn")
_LONGEST_SECONDS: Final = 3600


class LearningTimer:
    """Runs the command where there is something to learn, every so many seconds; never where these are 0.

    Every worker has one. Which of several comes first does not matter: the job is done by one process at a time, and
    finds nothing left the second time.
    """

    def __init__(
        self,
        database: Engine,
        keeper: Keeper,
        seconds: float,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self._database = database
        self._keeper = keeper
        self._seconds = seconds
        self._command = command
        self._stopped = Event()

    def start(self) -> None:
        """Begin, from a thread of this process that ends with it."""
        if self._seconds:
            Thread(target=self._keep_learning, name="learning", daemon=True).start()

    def stop(self) -> None:
        """End after the present run."""
        self._stopped.set()

    def _keep_learning(self) -> None:
        # Workers that were forked together must not all come at once.
        wait = random.uniform(0, self._seconds)  # noqa: S311  # nobody gains by guessing it
        while not self._stopped.wait(wait):
            wait = self._seconds
            try:
                self.run_once()
            except Exception as error:  # noqa: BLE001  # whatever it was: a timer that dies learns nothing for ever
                _logger.warning("measurements were not learned from (%s: %s)", type(error).__name__, error)

    def run_once(self) -> bool:
        """Learn, where there is something to learn from; whether there was."""
        try:
            catalog = self._keeper.current()
        except CatalogUnavailable:
            return False
        if not has_news(self._database, catalog):
            return False
        subprocess.run(  # noqa: S603  # this interpreter, with words of our own
            self._command, check=True, timeout=_LONGEST_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        return True
