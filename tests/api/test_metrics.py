"""`/metrics`, in one process; test_gunicorn has it in several."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.api.asking import QUESTION
from tests.api.fakes import EmptyKeeper

if TYPE_CHECKING:
    from flask.testing import FlaskClient


def scraped(client: "FlaskClient") -> dict[tuple[str, ...], float]:
    text = client.get("/metrics").text
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_counted_by_method_route_and_status(client: "FlaskClient") -> None:
    counter = ("kvquote_http_requests_total", "method=GET", "route=/fit", "status=422")
    before = scraped(client).get(counter, 0)

    client.get("/fit?modle=x")

    assert scraped(client)[counter] == before + 1


def test_durations_are_counted_in_buckets(client: "FlaskClient") -> None:
    client.get("/fit", query_string=QUESTION)

    assert scraped(client)["kvquote_http_request_duration_seconds_count", "method=GET", "route=/fit"] >= 1


def test_no_path_name_or_method_of_a_client_becomes_a_label(client: "FlaskClient") -> None:
    client.get("/secret-path?token=secret-token")
    client.open("/fit", method="SECRET")
    client.get("/problems/secret-name")
    client.post("/fit", json={**QUESTION, "model": "secret-model"})

    labels = " ".join(" ".join(sample[1:]) for sample in scraped(client))

    assert "secret" not in labels.lower()
    assert "route=/problems/<name>" in labels


def test_build_and_catalog_are_gauges(client: "FlaskClient") -> None:
    client.get("/fit", query_string=QUESTION)
    samples = scraped(client)

    assert samples["kvquote_catalog_revision",] >= 1
    assert [value for name, value in samples.items() if name[0] == "kvquote_build_info"] == [1]


def test_without_a_catalog_there_is_no_revision(client_with: Callable[..., "FlaskClient"]) -> None:
    assert ("kvquote_catalog_revision",) not in scraped(client_with(EmptyKeeper()))


def test_openmetrics_is_given_where_it_is_asked_for(client: "FlaskClient") -> None:
    response = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert response.content_type.startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_every_metric_is_named_for_the_service_and_its_unit(client: "FlaskClient") -> None:
    own = set(re.findall(r"^# TYPE (kvquote_\w+) ", client.get("/metrics").text, re.MULTILINE))

    assert own == {
        "kvquote_http_requests_total",
        "kvquote_http_request_duration_seconds",
        "kvquote_build_info",
        "kvquote_catalog_revision",
        "kvquote_calibration_revision",
        "kvquote_accuracy_groups",
        "kvquote_accuracy_drifting_groups",
        "kvquote_accuracy_typical_error_ratio",
        "kvquote_measurements_total",
    }
