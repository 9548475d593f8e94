"""The bare Flask view beside the libraries that the service stands on, and nothing of the service."""
# ruff: noqa: F401 - importing them is what is measured

import environs
import prometheus_client
import sqlalchemy.dialects.sqlite
import structlog

from tests.benchmarks.bare_flask import app
