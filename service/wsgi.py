"""The WSGI entry point: `gunicorn service.wsgi:app -c service/gunicorn.conf.py`."""
# ruff: noqa: E402 - the garbage collector has nothing to find in what importing makes, and takes a tenth of the time

import gc

gc.disable()

from service.app import StagedApp
from service.settings import Settings
from service.telemetry import logs

settings = Settings.from_environment()
logs.configure(settings)
app = StagedApp(settings)
# Enabled again it would begin with all of that, and find a half of a mebibyte: it stays.
gc.freeze()
gc.enable()
