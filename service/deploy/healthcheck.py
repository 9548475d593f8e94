"""Ask the service in this container whether it is alive: exit status 0 if it is, 1 if not.

Liveness, not readiness: an orchestrator ends an unhealthy container, and a database that is away is no reason to.
"""

import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException


def is_alive(port: int, timeout_seconds: float = 3) -> bool:
    """True when `/livez` on this machine answers 200; no proxy settings are looked at."""
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_alive(int(os.environ.get("PORT", "8000"))) else 1)
