"""What the operator may set: read once from the environment, every mistake reported together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Self, cast

from environs import Env, EnvValidationError
from marshmallow import ValidationError
from marshmallow.validate import Length, OneOf, Range, Regexp

ORIGIN = r"\*|https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?"
MEBIBYTE = 1 << 20
_PREFIX, _MISSPELT = "KVQUOTE_", 0.85


class LogFormat(StrEnum):
    """How a log line is written."""

    JSON = "json"
    CONSOLE = "console"


class SettingsError(ValueError):
    """One or more variables of the environment cannot be used; `faults` maps each to its reasons."""

    def __init__(self, faults: Mapping[str, list[str]]) -> None:
        self.faults = dict(faults)
        super().__init__(" ".join(f"{name}: {' '.join(reasons)}" for name, reasons in self.faults.items()))


def _cores() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """One field per variable. README's settings table says what each one does."""

    # The URL may hold a password, so it stays out of repr() and of any log line that prints the settings.
    database_url: str = field(default="sqlite:///kvquote.db", repr=False)
    database_timeout_seconds: float = 5.0
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = field(default_factory=_cores)
    threads: int = 4
    graceful_timeout_seconds: int = 25
    forwarded_allow_ips: str = "127.0.0.1,::1"
    cors_origins: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: LogFormat = LogFormat.JSON
    catalog_refresh_seconds: float = 1.0
    token_cache_seconds: float = 5.0
    open_reads: bool = True
    max_body_bytes: int = MEBIBYTE
    max_json_depth: int = 32
    upload_rows_per_minute: int = 1_200_000
    upload_bytes_per_minute: int = 1 << 30
    measurements_kept_days: int = 3650
    learning_seconds: float = 60.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from `environ`, by default the process's own.

        Raises SettingsError that names every unusable variable, not only the first.
        """
        env = _Environment(os.environ if environ is None else environ)
        usual = cls()
        values = {**_database(env, usual), **_server(env, usual), **_logging(env, usual), **_limits(env, usual)}
        faults = env.misspelt()
        try:
            env.seal()
        except EnvValidationError as error:
            faults.update(cast("Mapping[str, list[str]]", error.error_messages))
        if faults:
            raise SettingsError(faults)
        return cls(**values)  # type: ignore[arg-type]  # each reader returns the type of the field it names


class _Environment(Env):
    """environs over a given mapping: the library itself only ever reads os.environ."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # Set-but-empty is what `VAR=` in a manifest gives; it means "not set".
        self._given = {name: value for name, value in environ.items() if value != ""}
        self._read: set[str] = set()
        super().__init__(eager=False)

    def misspelt(self) -> dict[str, list[str]]:
        """Names that are nearly a setting's: in silence, the default would be taken for what was meant.

        Others are let be: a cluster sets variables such as KVQUOTE_SERVICE_HOST for a service of that name.
        """
        faults = {}
        for name in sorted(self._given.keys() - self._read):
            near = get_close_matches(name, self._read, n=1, cutoff=_MISSPELT) if name.startswith(_PREFIX) else []
            if near:
                faults[name] = [f"No setting has that name. Did you mean {near[0]}?"]
        return faults

    def _get_value(self, env_key: str, default: object) -> object:
        self._read.add(env_key)
        return self._given.get(env_key, default)


def _database(env: Env, usual: Settings) -> dict[str, object]:
    return {
        "database_url": _with_driver(env.str("DATABASE_URL", usual.database_url, validate=_known_database)),
        "database_timeout_seconds": env.float(
            "KVQUOTE_DATABASE_TIMEOUT_SECONDS", usual.database_timeout_seconds, validate=Range(0.1, 60)
        ),
    }


def _server(env: Env, usual: Settings) -> dict[str, object]:
    origins = env.list("KVQUOTE_CORS_ORIGINS", [], subcast=str, validate=_origins)
    return {
        "host": env.str("HOST", usual.host),
        "port": env.int("PORT", usual.port, validate=Range(0, 65535)),
        "workers": env.int("KVQUOTE_WORKERS", usual.workers, validate=Range(1, 256)),
        "threads": env.int("KVQUOTE_THREADS", usual.threads, validate=Range(1, 256)),
        "graceful_timeout_seconds": env.int(
            "KVQUOTE_GRACEFUL_TIMEOUT_SECONDS", usual.graceful_timeout_seconds, validate=Range(1, 3600)
        ),
        "forwarded_allow_ips": env.str("KVQUOTE_FORWARDED_ALLOW_IPS", usual.forwarded_allow_ips, validate=Length(1)),
        "cors_origins": tuple(origins or ()),
    }


def _logging(env: Env, usual: Settings) -> dict[str, object]:
    levels = ("debug", "info", "warning", "error", "critical")
    return {
        "log_level": env.str("KVQUOTE_LOG_LEVEL", usual.log_level, validate=OneOf(levels)),
        "log_format": LogFormat(
            env.str("KVQUOTE_LOG_FORMAT", usual.log_format, validate=OneOf([*LogFormat])) or usual.log_format
        ),
    }


def _limits(env: Env, usual: Settings) -> dict[str, object]:
    # The floors leave room for a published config.json, whose depth is at most 7 in the wild.
    return {
        "catalog_refresh_seconds": env.float(
            "KVQUOTE_CATALOG_REFRESH_SECONDS", usual.catalog_refresh_seconds, validate=Range(0.05, 3600)
        ),
        "token_cache_seconds": env.float(
            "KVQUOTE_TOKEN_CACHE_SECONDS", usual.token_cache_seconds, validate=Range(0, 300)
        ),
        "open_reads": env.bool("KVQUOTE_OPEN_READS", usual.open_reads),
        "max_body_bytes": env.int("KVQUOTE_MAX_BODY_BYTES", usual.max_body_bytes, validate=Range(1024, 64 * MEBIBYTE)),
        "max_json_depth": env.int("KVQUOTE_MAX_JSON_DEPTH", usual.max_json_depth, validate=Range(8, 128)),
        **_uploads(env, usual),
    }


def _uploads(env: Env, usual: Settings) -> dict[str, object]:
    # By default a day's backlog of 10,000 probes passes in a quarter of an hour.
    return {
        "upload_rows_per_minute": env.int(
            "KVQUOTE_UPLOAD_ROWS_PER_MINUTE", usual.upload_rows_per_minute, validate=Range(1, 2**31)
        ),
        "upload_bytes_per_minute": env.int(
            "KVQUOTE_UPLOAD_BYTES_PER_MINUTE", usual.upload_bytes_per_minute, validate=Range(1024, 2**40)
        ),
        "measurements_kept_days": env.int(
            "KVQUOTE_MEASUREMENTS_KEPT_DAYS", usual.measurements_kept_days, validate=Range(1, 36_500)
        ),
        "learning_seconds": env.float("KVQUOTE_LEARNING_SECONDS", usual.learning_seconds, validate=Range(0, 86_400)),
    }


def _known_database(url: str) -> None:
    if not url.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://", "postgres://")):
        # The value is not repeated: it may hold a password.
        raise ValidationError("Must begin with sqlite:/// or postgresql://.")


def _with_driver(url: str | None) -> str | None:
    """Name psycopg 3, whatever the platform that hands out the URL calls PostgreSQL."""
    for spelling in ("postgresql://", "postgres://"):
        if url and url.startswith(spelling):
            return "postgresql+psycopg://" + url.removeprefix(spelling)
    return url


def _origins(origins: list[str]) -> None:
    valid = Regexp(rf"(?:{ORIGIN})\Z", error="Each origin is scheme://host[:port], without a path, or *.")
    for origin in origins:
        valid(origin)
