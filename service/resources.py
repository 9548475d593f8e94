"""Every resource of the service, in the order of its document. Imported when more than quotes is asked for."""

from service.api import (
    calibrations,
    dtypes,
    engines,
    fit,
    gpus,
    health,
    instances,
    logs,
    measurements,
    metrics,
    models,
    openapi,
    problem_pages,
    traffic,
)
from service.web.views import web

RESOURCES = (
    fit.fit,
    traffic.traffic,
    models.models,
    gpus.gpus,
    instances.instances,
    dtypes.dtypes,
    engines.engines,
    logs.logs,
    measurements.measurements,
    calibrations.calibrations,
    health.health,
    metrics.metrics,
    problem_pages.problem_pages,
)
PAGES = (*RESOURCES, openapi.described_by(RESOURCES), web)
"""And what shows them."""
