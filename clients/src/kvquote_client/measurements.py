"""Measurements through the SDK: uploads that are safe to repeat, with a verdict for every row."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from kvquote_client.sending import encoded, path_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from kvquote_client.filters import MeasurementFilters
    from kvquote_client.measurement_answers import MeasurementRow, RowResult, UploadResult
    from kvquote_client.pages import Pages
    from kvquote_client.transport import Transport

# The service takes 1,000 rows in 10 MiB; a little is left for what stands around them.
LARGEST_BATCH_ROWS: Final = 1000
LARGEST_BATCH_BYTES: Final = 9 * 1024 * 1024


class Measurements:
    """`/measurements`."""

    path = "/measurements"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Unpack[MeasurementFilters]) -> Pages[MeasurementRow]:
        """What is stored, the newest measured first, with the verdict of the catalog as it is now."""
        from kvquote_client.measurement_answers import MeasurementRow
        from kvquote_client.pages import Pages

        return Pages(self._transport, self.path, filters, MeasurementRow)

    def get(self, measurement_id: str | uuid.UUID) -> MeasurementRow:
        """One stored measurement.

        Raises:
            NotFound: none has that id.
        """
        from kvquote_client.measurement_answers import MeasurementRow
        from kvquote_client.reading import read

        return read(MeasurementRow, self._transport.request("GET", path_to(self.path, str(measurement_id))).body)

    def put(self, row: Mapping[str, Any]) -> RowResult:
        """Store one row under its id, and hear its verdict.

        Raises:
            Conflict: another row has that id.
            Refused: the row is not valid.
        """
        from kvquote_client.measurement_answers import RowResult
        from kvquote_client.reading import read

        named = _named(row)
        path = path_to(self.path, str(named["id"]))
        return read(RowResult, self._transport.request("PUT", path, json=named, repeat=True).body)

    def upload(self, rows: Iterable[Mapping[str, Any]]) -> UploadResult:
        """Send rows, however many, and hear each one's verdict in the order they came.

        A row without an id gets one before it is first sent, so every try sends the same. Where a batch cannot be sent
        the ones before it are stored, and sending all of them again does no harm: they are `duplicate` then.

        Raises:
            Unreachable, Unavailable: later may do.
            NotAllowed: the token has no scope measurements:write.
        """
        from kvquote_client.measurement_answers import UploadResult

        results = [self._send(batch) for batch in batches(encoded(_named(row)) for row in rows)]
        counts: dict[str, int] = {}
        for verdict, number in ((v, n) for result in results for v, n in result.counts.items()):
            counts[verdict] = counts.get(verdict, 0) + number
        items = tuple(item for result in results for item in result.items)
        made: UploadResult = object.__new__(UploadResult)
        made.__dict__.update(raw={"items": [item.raw for item in items], "counts": counts}, items=items, counts=counts)
        return made

    def _send(self, rows: Sequence[bytes]) -> UploadResult:
        from kvquote_client.measurement_answers import UploadResult
        from kvquote_client.reading import read

        sent_at = datetime.now(timezone.utc).isoformat()
        body = b'{"sent_at":"%s","items":[%s]}' % (sent_at.encode(), b",".join(rows))
        headers = {"Content-Type": "application/json"}
        return read(
            UploadResult, self._transport.request("POST", self.path, data=body, headers=headers, repeat=True).body
        )


def batches(rows: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Rows as the service takes them at once, in their order; a row too large for any has a batch of its own."""
    batch: list[bytes] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == LARGEST_BATCH_ROWS or size + len(row) > LARGEST_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row) + 1
    if batch:
        yield batch


def _named(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row if row.get("id") else {**row, "id": str(uuid.uuid4())}
