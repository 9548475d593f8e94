"""What a command's connectors and events of caches say of a vLLM server's groups of caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.domain.commands.reading import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine
    from service.domain.engines.vllm.connectors import Verdict

_OWN: Final = ("_connector", "_connector_settings", "_host_cache", "_host_cache_backend", "_events")
_SHOWN: Final = 40


def settle_connectors(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Turn the hybrid cache off where the release does; what is not known of a connector is refused by its name."""
    values, said = found.take_all(_OWN)
    rule = engine.connectors.rule(engine.release(version).release)
    if values.get("_connector") is None:
        _without_connector(found, engine, version, values, said)
    elif values.get("_host_cache"):
        found.refuse(f"{said['_host_cache']} replaces the connector of --kv-transfer-config: leave one of them out.")
    else:
        _connector(found, engine, version, values, said["_connector"])
    if rule.events and "_events" in said:
        _turn_off(found, said["_events"])
    for spelling in said.values():
        if spelling not in found.said_by.values():
            found.ignore(spelling)


def _connector(
    found: Understood, engine: VllmEngine, version: str | None, values: Mapping[str, Any], spelling: str
) -> None:
    release, name = engine.release(version), values["_connector"]
    asked, settings = found.known("hybrid_cache"), values.get("_connector_settings") or {}
    verdict = engine.connectors.beside(name, settings, release.release, asked=asked)
    _say(found, verdict, f"{spelling} {name[:_SHOWN]}", release.name, spelling)


def _without_connector(
    found: Understood, engine: VllmEngine, version: str | None, values: Mapping[str, Any], said: Mapping[str, str]
) -> None:
    """A cache on the host by its size alone, or settings of what was never named."""
    release = engine.release(version)
    rule, backend = engine.connectors.rule(release.release), values.get("_host_cache_backend")
    if values.get("_host_cache"):
        _host_cache(found, engine, backend or rule.backend, version, said["_host_cache"])
    elif "_host_cache_backend" in said and rule.late and rule.backend is None:
        found.fail(f"vLLM {release.name} needs --kv-offloading-size beside {said['_host_cache_backend']}.")
    elif values.get("_connector_settings"):
        found.refuse(f"{said['_connector_settings']} is of no connector: name one as kv_connector.")


def _host_cache(found: Understood, engine: VllmEngine, backend: str | None, version: str | None, spelling: str) -> None:
    """A cache on the host by its size, whose backend names the connector; without one, older releases have none."""
    release = engine.release(version)
    if backend is None:
        found.warnings.append(f"vLLM {release.name} ignores {spelling} without --kv-offloading-backend.")
        return
    name = engine.connectors.of_backend(backend, release.release)
    if name is None:
        found.refuse(f"No backend of caches on the host is known as {shown(backend)}: native and lmcache are.")
        return
    asked = found.known("hybrid_cache")
    verdict = engine.connectors.beside(name, {}, release.release, asked=asked, late=True)
    _say(found, verdict, f"{spelling} ({name})", release.name, spelling)


def _say(found: Understood, verdict: Verdict, what: str, release: str, spelling: str) -> None:
    if verdict.wrong:
        found.fail(f"vLLM {release}: {what}: {verdict.wrong}.")
    elif verdict.refused:
        found.refuse(f"{what}: {verdict.refused}.", verdict.close)
    else:
        found.notes.append(f"{what}: moving caches is not timed, and what the host keeps is not counted")
        if verdict.hybrid is not None:
            _turn_off(found, spelling)


def _turn_off(found: Understood, spelling: str) -> None:
    if found.settings.get("hybrid_cache") is None:
        found.put("hybrid_cache", value=False, spelling=spelling)
