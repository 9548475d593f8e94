"""The Kubernetes manifests as plain values."""

from typing import Any

import yaml

from tests.deploy.settings import DEPLOY

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION = "kustomization.yaml"
# Kinds that other projects define: kubernetes-validate has no schema of them.
FOREIGN = (KUSTOMIZATION, "service-monitor.yaml")

Manifest = dict[str, Any]


def names() -> list[str]:
    return sorted(path.name for path in FOLDER.glob("*.yaml"))


def manifest(name: str) -> Manifest:
    document: Manifest = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return document


def pod(name: str) -> Manifest:
    spec: Manifest = manifest(name)["spec"]["template"]["spec"]
    return spec


def containers(name: str) -> list[Manifest]:
    spec = pod(name)
    return [*spec.get("initContainers", []), *spec["containers"]]


def environment(container: Manifest) -> dict[str, str]:
    """What a container finds: the map it takes whole, and its own variables; secrets as a stand-in."""
    taken = [manifest("config.yaml")["data"] for _ in container.get("envFrom", [])]
    own = {each["name"]: each.get("value", "postgresql://user:secret@host/kvquote") for each in container["env"]}
    return {name: value for variables in (*taken, own) for name, value in variables.items()}
