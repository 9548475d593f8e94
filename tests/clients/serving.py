"""The real application on a loopback port, as clients reach it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class Quiet(WSGIRequestHandler):
    """Keeps connections, as gunicorn does, and says nothing."""

    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        pass


@contextmanager
def served(app: "WSGIApplication") -> Iterator[str]:
    """The address at which it answers."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.05))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
