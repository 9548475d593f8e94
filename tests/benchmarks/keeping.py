"""`python -m tests.benchmarks.keeping URL`: what a process takes that keeps the catalog and has answered from it.

A process of its own and no server: one with very many models reads for seconds before its first answer.
"""

import sys
from urllib.parse import quote

import psutil

from service.api.services import services_of
from service.domain.catalog import CatalogKind
from service.storage.snapshot import Snapshot
from tests.benchmarks.calling import application

_ASKED = 100


def main(url: str) -> None:
    with application(url) as app:
        catalog = services_of(app).keeper.current()
        if not isinstance(catalog, Snapshot):
            raise TypeError(f"the application keeps a {type(catalog).__name__}")
        catalog.gather_names()
        client = app.test_client()
        for name in catalog.ids(CatalogKind.MODEL)[:_ASKED]:
            client.get(f"/fit?model={quote(name)}&gpu=h100-sxm-80gb&context_tokens=1024")
        client.get("/models?q=llama&has_reader=true")
        size = psutil.Process().memory_full_info().pss
    print(size)


if __name__ == "__main__":
    main(sys.argv[1])
