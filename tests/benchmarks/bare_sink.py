"""The least that takes uploads: every row is accepted and none is kept. What a probe costs shows best against it."""

import gzip
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if environ.get("HTTP_CONTENT_ENCODING") == "gzip":
        body = gzip.decompress(body)
    items = [{"id": row["id"], "verdict": "accepted"} for row in json.loads(body or b'{"items":[]}')["items"]]
    answer = json.dumps({"items": items}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
