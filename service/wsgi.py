"""The WSGI entry point: `gunicorn service.wsgi:app -c service/gunicorn.conf.py`."""

from service.app import create_app
from service.settings import Settings
from service.telemetry import logs

settings = Settings.from_environment()
logs.configure(settings)
app = create_app(settings)
