"""What the operator may set."""

from dataclasses import fields

import pytest

from service.settings import LogFormat, Settings, SettingsError


def test_without_a_variable_the_defaults_hold() -> None:
    settings = Settings.from_environment({})

    assert settings == Settings()
    assert settings.database_url == "sqlite:///kvquote.db"
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)


def test_every_setting_has_a_variable() -> None:
    given = {
        "DATABASE_URL": "postgresql://u@h/d",
        "HOST": "0.0.0.0",
        "PORT": "9000",
        "KVQUOTE_DATABASE_TIMEOUT_SECONDS": "2.5",
        "KVQUOTE_WORKERS": "3",
        "KVQUOTE_THREADS": "5",
        "KVQUOTE_GRACEFUL_TIMEOUT_SECONDS": "9",
        "KVQUOTE_FORWARDED_ALLOW_IPS": "10.0.0.1",
        "KVQUOTE_CORS_ORIGINS": "https://a.example,http://localhost:3000",
        "KVQUOTE_LOG_LEVEL": "warning",
        "KVQUOTE_LOG_FORMAT": "console",
        "KVQUOTE_CATALOG_REFRESH_SECONDS": "0.5",
        "KVQUOTE_TOKEN_CACHE_SECONDS": "0.25",
        "KVQUOTE_OPEN_READS": "false",
        "KVQUOTE_MAX_BODY_BYTES": "2048",
        "KVQUOTE_MAX_JSON_DEPTH": "64",
        "KVQUOTE_UPLOAD_ROWS_PER_MINUTE": "5000",
        "KVQUOTE_UPLOAD_BYTES_PER_MINUTE": "1000000",
        "KVQUOTE_MEASUREMENTS_KEPT_DAYS": "90",
        "KVQUOTE_LEARNING_SECONDS": "5",
    }

    settings, usual = Settings.from_environment(given), Settings(workers=1)

    assert [
        field.name for field in fields(Settings) if getattr(settings, field.name) == getattr(usual, field.name)
    ] == []
    assert settings.cors_origins == ("https://a.example", "http://localhost:3000")
    assert settings.log_format is LogFormat.CONSOLE


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_spoken_to_by_psycopg_three(scheme: str) -> None:
    assert Settings.from_environment({"DATABASE_URL": f"{scheme}://h/d"}).database_url == "postgresql+psycopg://h/d"


def test_a_variable_that_is_empty_is_not_set() -> None:
    assert Settings.from_environment({"PORT": "", "KVQUOTE_CORS_ORIGINS": ""}) == Settings()


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = {
        "PORT": "http",
        "DATABASE_URL": "mysql://u:hunter2@h/d",
        "KVQUOTE_THREADS": "0",
        "KVQUOTE_LOG_FORMAT": "xml",
        "KVQUOTE_CORS_ORIGINS": "https://a.example/path",
        "KVQUOTE_MAX_JSON_DEPTH": "4",
    }

    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(wrong)

    assert set(raised.value.faults) == set(wrong)
    assert all(name in str(raised.value) for name in wrong)
    assert "hunter2" not in str(raised.value)


def test_a_password_is_not_printed() -> None:
    assert "hunter2" not in repr(Settings(database_url="postgresql://u:hunter2@h/d"))


@pytest.mark.parametrize("origin", ["*", "https://a.example", "http://localhost:3000"])
def test_an_origin_is_a_scheme_and_a_host(origin: str) -> None:
    assert Settings.from_environment({"KVQUOTE_CORS_ORIGINS": origin}).cors_origins == (origin,)


@pytest.mark.parametrize(
    "origin", ["a.example", "https://", "https://a.example/", "https://*.example", "ftp://a.example"]
)
def test_anything_else_is_no_origin(origin: str) -> None:
    with pytest.raises(SettingsError):
        Settings.from_environment({"KVQUOTE_CORS_ORIGINS": origin})
