"""Names that the environment of a container may hold, and what the service makes of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "service" / "deploy"
# Read by gunicorn.conf.py and prometheus_client, before there are any settings.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def known_names() -> set[str]:
    text = (ROOT / "service" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', text))
    assert "DATABASE_URL" in read
    assert METRICS_FOLDER in (ROOT / "service" / "gunicorn.conf.py").read_text(encoding="utf-8")
    return read | {METRICS_FOLDER}
