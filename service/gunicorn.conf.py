"""How gunicorn serves the application: `gunicorn service.wsgi:app -c service/gunicorn.conf.py`."""
# ruff: noqa: E402, N999 - see service/wsgi.py; the name that gunicorn's own documentation gives such a file

import gc

gc.disable()

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from service.settings import Settings
from service.telemetry.gunicorn_logger import StructuredLogger

METRICS = "PROMETHEUS_MULTIPROC_DIR"
EMPTIED_BY = "KVQUOTE_METRICS_EMPTIED_BY"
OWN_FOLDER = "kvquote-metrics-"
_WARM_QUESTIONS = 32

settings = Settings.from_environment()

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
worker_class = "service.api.server_refusals.Worker"
workers = settings.workers
threads = settings.threads
# Workers share the pages of code and catalog readers that were loaded before they were forked.
preload_app = True
graceful_timeout = settings.graceful_timeout_seconds
forwarded_allow_ips = settings.forwarded_allow_ips
# Twice the default, and the most that it takes: a command in a query string is long.
limit_request_line = 8190
logger_class = StructuredLogger
loglevel = settings.log_level
# The service writes one line per request itself.
accesslog = None
# On by default since 25.1, in a home directory that containers do not have; nothing here uses it.
control_socket_disable = True
# The heartbeat is a file that each worker touches; on a disk it can block.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - memory, not a shared folder


def _prepare_metrics() -> None:
    """Have several workers count in files of one empty folder.

    It must be known before prometheus_client is imported, hence here. A reload runs this file again in the same
    process, with workers that still count: the mark keeps their files.
    """
    if os.environ.get(EMPTIED_BY) == str(os.getpid()):
        return
    os.environ[EMPTIED_BY] = str(os.getpid())
    os.environ[METRICS] = os.environ.get(METRICS) or tempfile.mkdtemp(prefix=OWN_FOLDER)
    folder = Path(os.environ[METRICS])
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.db"):
        stale.unlink()


if workers > 1:
    _prepare_metrics()


def _services() -> Any:  # noqa: ANN401 - naming its type would import what counts before the folder above is known
    from service.wsgi import app  # noqa: PLC0415

    return app.services


def pre_fork(_server: Any, _worker: Any) -> None:  # noqa: ANN401 - gunicorn ships no types
    """Make ready what workers share, before the first of them is forked and not again for the others.

    Whatever this process does between two forks, it does to pages that it shares with the workers that are there, and
    they would have the old ones to themselves.
    """
    _prepare()


@cache
def _prepare() -> float:
    """Read the catalog for all workers, and leave it and the code alone from then on; when that was done.

    Connections are closed again, for a fork must not share them. The garbage collector would write a mark to every page
    that it looks at, and so copy it into each worker.
    """
    having = _services()
    having.keeper.refresh()
    if workers > 1:
        _load_rest()
    having.engine.dispose()
    gc.collect()
    gc.freeze()
    # A reload runs this file again, but not the application's.
    gc.enable()
    return monotonic()


def _load_rest() -> None:
    """Load what the first question of each kind would otherwise wait for, so that workers share it.

    A worker that shares with no other loads it when it is asked for: one that only quotes then never does.
    """
    from service.domain.errors import CatalogUnavailable  # noqa: PLC0415 - needed after the application is loaded
    from service.preloading import import_rest  # noqa: PLC0415 - as above
    from service.wsgi import app  # noqa: PLC0415 - as above

    app.load()
    import_rest()
    with suppress(CatalogUnavailable):
        catalog = app.services.keeper.current()
        catalog.gather_names()
        catalog.read_values()
        _warm_up(catalog)


def _warm_up(catalog: Any) -> None:  # noqa: ANN401 - naming its type would import what counts before its folder is known
    """Answer some questions, so that workers share what Python writes into code as it runs it for the first times."""
    from service.answers import fit_answer  # noqa: PLC0415 - needed after the application is loaded
    from service.domain.catalog import CatalogKind  # noqa: PLC0415 - as above

    for model in catalog.ids(CatalogKind.MODEL)[:_WARM_QUESTIONS]:
        # Whatever is wrong with one is told to whoever asks for it.
        with suppress(Exception):
            fit_answer({"model": model, "memory_bytes": 80 << 30, "context_tokens": 4096}, catalog)


def post_fork(_server: Any, _worker: Any) -> None:  # noqa: ANN401 - gunicorn ships no types
    """Give the worker connections of its own, and the catalog of now if it comes in the place of one that ended.

    Until gunicorn sets a worker's own handlers it has those of the master, which only note a signal for a loop that
    does not run here: told to stop now, it would not, and the whole service would wait for it. It has nothing to
    finish yet.
    """
    for told in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(told, signal.SIG_DFL)
    from service.learning_timer import LearningTimer  # noqa: PLC0415 - needed after the application is loaded
    from service.storage.database import dispose_after_fork  # noqa: PLC0415 - as above
    from service.storage.snapshot import first_wait_seconds  # noqa: PLC0415 - as above

    having = _services()
    dispose_after_fork(having.engine)
    if monotonic() - _prepare() > first_wait_seconds(settings.catalog_refresh_seconds):
        having.keeper.refresh()
    having.keeper.start()
    LearningTimer(having.engine, having.keeper, settings.learning_seconds).start()


def child_exit(_server: Any, worker: Any) -> None:  # noqa: ANN401 - gunicorn ships no types
    """Drop the gauges of a worker that ended; its counters stay, or sums would shrink."""
    if METRICS in os.environ:
        from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 - may not be imported any earlier

        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:  # noqa: ANN401 - gunicorn ships no types
    """Leave no folder behind that was made here."""
    folder = Path(os.environ.get(METRICS, ""))
    if folder.name.startswith(OWN_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
