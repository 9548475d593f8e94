"""What a command's connectors and events of caches say of a vLLM server's groups of caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine
    from service.domain.engines.vllm.connectors import Verdict


_OWN: Final = ("_connector", "_connector_settings", "_host_cache", "_host_cache_backend", "_events")


def settle_connectors(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Turn the hybrid cache off where the release does; what is not known of a connector is refused by its name."""
    release = engine.release(version)
    name, settings = found.take("_connector"), found.take("_connector_settings", {})
    size, backend = found.take("_host_cache"), found.take("_host_cache_backend")
    spellings: dict[str, str] = {key: found.said_by.pop(key) for key in _OWN if key in found.said_by}
    found.take("_events")
    rule = engine.connectors.rule(release.release)
    asked = found.known("hybrid_cache")
    if name is not None and size:
        found.refuse(
            f"{spellings['_host_cache']} replaces the connector of --kv-transfer-config: leave one of them out."
        )
    elif name is not None:
        verdict = engine.connectors.beside(name, settings, release.release, asked=asked)
        _say(found, verdict, f"{spellings['_connector']} {name[:40]}", release.name, spellings["_connector"])
    elif size:
        _host_cache(found, engine, backend or rule.backend, version, spellings)
    elif "_host_cache_backend" in spellings and rule.late and rule.backend is None:
        found.fail(f"vLLM {release.name} needs --kv-offloading-size beside {spellings['_host_cache_backend']}.")
    elif settings:
        found.refuse(f"{spellings['_connector_settings']} is of no connector: name one as kv_connector.")
    _events(found, rule.events and spellings.get("_events"))
    for spelling in spellings.values():
        if spelling not in found.said_by.values():
            found.ignore(spelling)


def _host_cache(
    found: Understood, engine: VllmEngine, backend: str | None, version: str | None, spellings: Mapping[str, str]
) -> None:
    """A cache on the host by its size, whose backend names the connector; without one, older releases have none."""
    release, spelling = engine.release(version), spellings["_host_cache"]
    if backend is None:
        found.warnings.append(f"vLLM {release.name} ignores {spelling} without --kv-offloading-backend.")
        return
    name = engine.connectors.of_backend(backend, release.release)
    if name is None:
        found.refuse(f"No backend of caches on the host is known as {backend[:40]!r}: native and lmcache are.")
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


def _events(found: Understood, spelling: Any) -> None:  # noqa: ANN401  # a spelling, or nothing
    if spelling:
        _turn_off(found, spelling)


def _turn_off(found: Understood, spelling: str) -> None:
    if found.settings.get("hybrid_cache") is None:
        found.put("hybrid_cache", value=False, spelling=spelling)
