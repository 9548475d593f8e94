"""Stand-ins for the catalog's keeper: one without a catalog, one whose questions fail as they are told to."""

from service.domain.errors import CatalogUnavailable
from service.storage.snapshot import Snapshot


class EmptyKeeper:
    """The database was never reached."""

    def __init__(self) -> None:
        self.refreshes = 0

    def current(self) -> Snapshot:
        raise CatalogUnavailable.at("", "The catalog has not been read yet.")

    def refresh(self) -> bool:
        self.refreshes += 1
        return False

    def start(self) -> None:
        """Nothing to keep."""


class FailingKeeper(EmptyKeeper):
    """Asking for the catalog raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def current(self) -> Snapshot:
        raise self._error
