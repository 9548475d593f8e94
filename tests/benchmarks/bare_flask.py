"""The bare Flask JSON view that quotes are compared with. Imports nothing else: its memory is measured too."""

from flask import Flask, Response, jsonify

app = Flask(__name__)


@app.get("/")
def hello() -> Response:
    return jsonify(ok=True)
