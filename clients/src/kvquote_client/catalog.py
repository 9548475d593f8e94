"""The catalog through the SDK: lists, single entries, their history, and writes that know what they overwrite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kvquote_client.sending import path_to, query_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from typing_extensions import Unpack

    from kvquote_client.catalog_answers import (
        DtypeEntry,  # noqa: F401 - the bases below name it
        DtypeRow,
        EngineEntry,  # noqa: F401
        EngineRow,
        EntryRevision,
        GpuEntry,  # noqa: F401
        GpuRow,
        InspectAnswer,
        InstanceEntry,  # noqa: F401
        InstanceRow,
        ModelEntry,
        ModelRow,
    )
    from kvquote_client.filters import (
        DtypeFilters,
        EntryFilters,
        GpuFilters,
        ImportFacts,
        InstanceFilters,
        ModelFilters,
        PageFilters,
    )
    from kvquote_client.pages import Pages
    from kvquote_client.reading import Answer
    from kvquote_client.transport import Reply, Transport

Row = TypeVar("Row", bound="Answer")
Entry = TypeVar("Entry", bound="Answer")


class Resource(Generic[Row, Entry]):
    """One of the catalog's lists and the entries below it."""

    path: ClassVar[str]
    _kinds: ClassVar[tuple[str, str]]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, name: str, *, as_of: str | datetime | None = None) -> Entry:
        """One entry by its id, alias or hub id, with all its facts and the `etag` that a write has to know.

        Raises:
            NotFound: nothing answers to that name.
        """
        return self._entry(
            self._transport.request("GET", path_to(self.path, name), params=query_words({"as_of": as_of}))
        )

    def revisions(self, name: str, **filters: Unpack[PageFilters]) -> Pages[EntryRevision]:
        """Every change of an entry, the newest first; also of one that is deleted."""
        from kvquote_client.catalog_answers import EntryRevision
        from kvquote_client.pages import Pages

        return Pages(self._transport, path_to(self.path, name, "revisions"), filters, EntryRevision)

    def put(
        self, name: str, facts: Mapping[str, Any], *, etag: str | None, overwrite_measured: bool | None = None
    ) -> Entry:
        """Make an entry what `facts` say. `etag` is of the entry as it was read, None to create one.

        A lost answer is not asked for again: the second try would find the first one's entry, and call it a conflict.

        Raises:
            Conflict: somebody else wrote first, or a measured fact would be lost.
            NotAllowed: the token has no scope catalog:write.
        """
        params = query_words({"overwrite_measured": overwrite_measured})
        written = self._transport.request(
            "PUT", path_to(self.path, name), params=params, json=facts, headers=condition(etag)
        )
        return self._entry(written)

    def delete(self, name: str, *, etag: str) -> None:
        """Delete the entry as it was read.

        Raises:
            Conflict: somebody else wrote first, or other entries refer to it.
        """
        self._transport.request("DELETE", path_to(self.path, name), headers=condition(etag))

    def _list(self, filters: Mapping[str, Any]) -> Pages[Row]:
        from kvquote_client import catalog_answers
        from kvquote_client.pages import Pages

        row: type[Row] = getattr(catalog_answers, self._kinds[0])
        return Pages(self._transport, self.path, filters, row)

    def _entry(self, reply: Reply) -> Entry:
        from kvquote_client import catalog_answers
        from kvquote_client.reading import read

        kind: type[Entry] = getattr(catalog_answers, self._kinds[1])
        return read(kind, reply.body, etag=reply.etag)


class Models(Resource["ModelRow", "ModelEntry"]):
    """`/models`."""

    path = "/models"
    _kinds = ("ModelRow", "ModelEntry")

    def list(self, **filters: Unpack[ModelFilters]) -> Pages[ModelRow]:
        """The models, in the order of their ids."""
        return self._list(filters)

    def inspect(self, config: Mapping[str, Any], *, assume: str | None = None) -> InspectAnswer:
        """What a reader makes of a config.json, without storing it: its matrices and cache layers with their shapes."""
        from kvquote_client.catalog_answers import InspectAnswer
        from kvquote_client.reading import read

        asked = {"config": config, **({"assume": assume} if assume else {})}
        return read(InspectAnswer, self._transport.request("POST", "/models/inspect", json=asked, repeat=True).body)

    def import_(
        self,
        hub_id: str,
        config: Mapping[str, Any],
        *,
        etag: str | None = None,
        gguf_header: bytes | None = None,
        **known: Unpack[ImportFacts],
    ) -> ModelEntry:
        """Take a model into the catalog from its config.json and, if given, its checkpoint's header.

        `etag` is of the entry that it takes the place of, None to create one; `gguf_header` is the file's beginning.
        Raises as `put`.
        """
        from base64 import b64encode

        header = {} if gguf_header is None else {"gguf_header": b64encode(gguf_header).decode()}
        asked = {"hub_id": hub_id, "config": config, **known, **header}
        return self._entry(self._transport.request("POST", "/models/import", json=asked, headers=condition(etag)))


class Gpus(Resource["GpuRow", "GpuEntry"]):
    """`/gpus`."""

    path = "/gpus"
    _kinds = ("GpuRow", "GpuEntry")

    def list(self, **filters: Unpack[GpuFilters]) -> Pages[GpuRow]:
        """The GPUs, slices of cards among them, in the order of their ids."""
        return self._list(filters)


class Instances(Resource["InstanceRow", "InstanceEntry"]):
    """`/instances`."""

    path = "/instances"
    _kinds = ("InstanceRow", "InstanceEntry")

    def list(self, **filters: Unpack[InstanceFilters]) -> Pages[InstanceRow]:
        """What clouds rent, and at what price."""
        return self._list(filters)


class Dtypes(Resource["DtypeRow", "DtypeEntry"]):
    """`/dtypes`."""

    path = "/dtypes"
    _kinds = ("DtypeRow", "DtypeEntry")

    def list(self, **filters: Unpack[DtypeFilters]) -> Pages[DtypeRow]:
        """The number formats of weights and caches."""
        return self._list(filters)


class Engines(Resource["EngineRow", "EngineEntry"]):
    """`/engines`."""

    path = "/engines"
    _kinds = ("EngineRow", "EngineEntry")

    def list(self, **filters: Unpack[EntryFilters]) -> Pages[EngineRow]:
        """The engines, and the releases that are known of each."""
        return self._list(filters)


def condition(etag: str | None) -> dict[str, str]:
    """The header that a write is made under: of what was read, or that there is nothing yet."""
    return {"If-None-Match": "*"} if etag is None else {"If-Match": etag}
