"""The Kubernetes manifests: valid, confined, and in step with the service and its image."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from service import __version__
from service.cli import main
from service.settings import Settings
from tests.conftest import AppMaker
from tests.deploy.manifests import FOLDER, FOREIGN, KUSTOMIZATION, containers, environment, manifest, names, pod
from tests.deploy.settings import METRICS_FOLDER, known_names
from tests.tooling.dockerfile import exec_form, named

PODS = ("deployment.yaml", "migrate.yaml")


def service() -> dict[str, Any]:
    (container,) = containers("deployment.yaml")
    return container


def service_settings() -> Settings:
    return Settings.from_environment(environment(service()))


def validated(*paths: Path) -> "subprocess.CompletedProcess[str]":
    validate = Path(sys.executable).with_name("kubernetes-validate")
    return subprocess.run([validate, "--strict", *paths], capture_output=True, text=True, check=False)


def test_every_manifest_is_valid() -> None:
    ours = [name for name in names() if name not in FOREIGN]
    done = validated(*(FOLDER / name for name in ours))

    assert done.returncode == 0, done.stdout
    assert [name for name in ours if f"INFO {FOLDER / name} passed" not in done.stdout + done.stderr] == []


def test_a_misspelt_probe_would_be_noticed(tmp_path: Path) -> None:
    text = (FOLDER / "deployment.yaml").read_text(encoding="utf-8")
    (tmp_path / "deployment.yaml").write_text(text.replace("livenessProbe:", "livnessProbe:"))

    assert validated(tmp_path / "deployment.yaml").returncode != 0


def test_the_kustomization_lists_every_manifest_that_any_cluster_knows() -> None:
    listed = manifest(KUSTOMIZATION)["resources"]

    assert sorted(listed) == [name for name in names() if name not in FOREIGN]


def test_the_kustomization_takes_the_image_of_this_version() -> None:
    (image,) = manifest(KUSTOMIZATION)["images"]

    assert image == {"name": "kvquote", "newTag": __version__}
    assert {container["image"] for name in PODS for container in containers(name)} == {image["name"]}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_runs_as_the_user_of_the_image_and_not_as_root(name: str) -> None:
    context = pod(name)["securityContext"]
    (user,) = named("USER")

    assert context["runAsNonRoot"] is True
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user.rest
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(name)["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", PODS)
def test_a_container_is_confined(name: str) -> None:
    confined = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }

    assert [each["name"] for each in containers(name) if each["securityContext"] != confined] == []


@pytest.mark.parametrize("name", PODS)
def test_a_container_says_what_it_needs_and_may_take(name: str) -> None:
    resources = [container["resources"] for container in containers(name)]

    assert {frozenset(each[kind]) for each in resources for kind in ("requests", "limits")} == {
        frozenset({"cpu", "memory"})
    }


@pytest.mark.parametrize("name", PODS)
def test_what_a_container_writes_to_is_a_volume_that_there_is(name: str) -> None:
    volumes = {volume["name"]: volume for volume in pod(name)["volumes"]}
    mounts = [mount for container in containers(name) for mount in container["volumeMounts"]]

    assert "/tmp" in {mount["mountPath"] for mount in mounts}
    assert {mount["name"] for mount in mounts} == set(volumes)
    assert all("sizeLimit" in volume["emptyDir"] for volume in volumes.values())


@pytest.mark.parametrize("name", PODS)
def test_every_variable_is_one_that_the_service_reads(name: str) -> None:
    given = {variable for container in containers(name) for variable in environment(container)}

    assert "DATABASE_URL" in given
    assert given <= known_names()


def test_the_settings_are_taken_as_they_stand() -> None:
    settings = service_settings()

    assert (settings.host, settings.workers) == ("0.0.0.0", 2)
    assert settings.database_url.startswith("postgresql+psycopg://")


@pytest.mark.parametrize("name", PODS)
def test_the_address_of_the_database_is_a_secret_that_is_not_shipped(name: str) -> None:
    for container in containers(name):
        (database,) = container["env"]
        assert database["valueFrom"] == {"secretKeyRef": {"name": "kvquote-database", "key": "url"}}
    assert "Secret" not in {manifest(name)["kind"] for name in names()}


def test_the_workers_count_in_a_folder_in_memory() -> None:
    volumes = {volume["name"]: volume["emptyDir"] for volume in pod("deployment.yaml")["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in service()["volumeMounts"]}

    assert volumes[mounts[environment(service())[METRICS_FOLDER]]]["medium"] == "Memory"


def test_the_steps_of_the_job_are_commands_that_there_are_in_their_order() -> None:
    steps = [container["args"] for container in containers("migrate.yaml")]

    assert [step[:2] for step in steps] == [["db", "upgrade"], ["catalog", "load"]]
    assert {CliRunner().invoke(main, [*step, "--help"]).exit_code for step in steps} == {0}


def test_the_probes_ask_paths_that_there_are_at_the_port_that_is_served(make_app: AppMaker) -> None:
    app = make_app("sqlite:////nowhere/at/all.db")
    probes = {name: service()[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    (port,) = service()["ports"]

    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez", "liveness": "/livez", "readiness": "/readyz",
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert {"/livez", "/readyz", "/metrics"} <= {rule.rule for rule in app.url_map.iter_rules()}


def test_the_port_is_the_one_that_the_image_opens() -> None:
    (port,) = service()["ports"]

    assert [each.rest for each in named("EXPOSE")] == [str(port["containerPort"])]
    assert service_settings().port == port["containerPort"]


def test_a_copy_that_ends_may_finish_its_answers() -> None:
    pause = service()["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert pod("deployment.yaml")["terminationGracePeriodSeconds"] > pause + service_settings().graceful_timeout_seconds


def test_an_upgrade_never_leaves_fewer_copies_than_asked_for() -> None:
    deployment = manifest("deployment.yaml")["spec"]

    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": "100%"}


@pytest.mark.parametrize(
    "name", ["service.yaml", "pod-disruption-budget.yaml", "network-policy.yaml", "service-monitor.yaml"]
)
def test_what_selects_the_copies_finds_them(name: str) -> None:
    spec = manifest(name)["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    labels = manifest("deployment.yaml")["spec"]["template"]["metadata"]["labels"]

    assert (selector.get("matchLabels") or selector).items() <= labels.items()


def test_the_service_and_the_monitor_name_the_port_of_the_copies() -> None:
    (port,) = service()["ports"]
    (front,) = manifest("service.yaml")["spec"]["ports"]
    (endpoint,) = manifest("service-monitor.yaml")["spec"]["endpoints"]

    assert (front["targetPort"], front["name"], endpoint["port"]) == (port["name"],) * 3
    assert endpoint["path"] == "/metrics"


def test_the_network_lets_in_what_asks_and_out_what_is_asked() -> None:
    spec = manifest("network-policy.yaml")["spec"]
    out = {port["port"] for rule in spec["egress"] for port in rule["ports"]}

    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == ["http"]
    assert out == {53, 5432}


def test_the_image_starts_the_service_without_arguments() -> None:
    (command,) = named("CMD")

    assert exec_form(command.rest) == ["serve"]
    assert "args" not in service()
