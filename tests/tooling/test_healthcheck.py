"""The container's health check."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from service.deploy.healthcheck import is_alive


@contextmanager
def server_that_answers(status: int) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_service_that_answers_is_alive() -> None:
    with server_that_answers(200) as port:
        assert is_alive(port)


def test_a_service_that_answers_an_error_is_not_alive() -> None:
    with server_that_answers(503) as port:
        assert not is_alive(port)


def test_a_port_that_nobody_listens_on_is_not_alive() -> None:
    with server_that_answers(200) as port:
        pass

    assert not is_alive(port)


def test_a_proxy_setting_does_not_lead_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    with server_that_answers(200) as port:
        assert is_alive(port)
