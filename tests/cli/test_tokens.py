"""`kvquote-server token`: what is printed where, and what is refused."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner, Result

from service import cli
from service.storage.database import make_engine, reading
from service.storage.token_cache import TokenCache
from service.storage.tokens import Token, list_tokens

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Run:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return lambda *arguments: CliRunner().invoke(cli.main, ["token", *map(str, arguments)])


@pytest.fixture
def tokens(database_url: str) -> Callable[[], list[Token]]:
    def read() -> list[Token]:
        engine = make_engine(database_url)
        with reading(engine) as connection:
            found = list_tokens(connection)
        engine.dispose()
        return found

    return read


def works(database_url: str, text: str) -> bool:
    engine = make_engine(database_url)
    token = TokenCache(engine).find(text)
    engine.dispose()
    return token is not None


def create(run: Run, *more: object) -> Result:
    return run("create", "--name", "ci", "--scope", "catalog:write", *more)


def test_a_new_token_is_all_that_is_printed_for_scripts(run: Run, database_url: str) -> None:
    result = create(run)

    assert result.exit_code == 0
    assert re.fullmatch(r"kvq_\w{11}_\w{49}\n", result.stdout)
    assert "not shown again" in result.stderr
    assert works(database_url, result.stdout.strip())


def test_a_token_expires_after_a_year_unless_said_otherwise(run: Run, tokens: Callable[[], list[Token]]) -> None:
    create(run)
    create(run, "--days", 7)
    create(run, "--never-expires")

    usual, short, forever = (token.expires_at for token in tokens())
    assert usual
    assert short
    assert round((usual - datetime.now(UTC)) / timedelta(days=1)) == 365
    assert round((short - datetime.now(UTC)) / timedelta(days=1)) == 7
    assert forever is None


def test_a_token_cannot_both_expire_and_not(run: Run, tokens: Callable[[], list[Token]]) -> None:
    result = create(run, "--days", 7, "--never-expires")

    assert result.exit_code == 2
    assert "Give --days or --never-expires, not both." in result.stderr
    assert tokens() == []


def test_a_list_shows_who_may_do_what_and_nothing_secret(run: Run) -> None:
    secret = create(run).stdout.strip().rpartition("_")[2]
    create(run, "--scope", "read", "--never-expires")

    listed = run("list").stdout

    first, second = listed.splitlines()
    assert re.fullmatch(r"\w{11}  ci  catalog:write  until \d{4}-\d\d-\d\d \d\d:\d\dZ, never wrote", first)
    assert re.fullmatch(r"\w{11}  ci  catalog:write read  never expires, never wrote", second)
    assert secret not in listed


def test_a_revoked_token_no_longer_works(run: Run, database_url: str, tokens: Callable[[], list[Token]]) -> None:
    text = create(run).stdout.strip()
    (token,) = tokens()

    result = run("revoke", token.id)

    assert result.stdout == f"Token {token.id} for ci is revoked.\n"
    assert not works(database_url, text)
    assert "  revoked 2" in run("list").stdout


def test_when_the_last_token_is_revoked_another_can_be_made(
    run: Run, database_url: str, tokens: Callable[[], list[Token]]
) -> None:
    create(run)
    run("revoke", tokens()[0].id)

    assert works(database_url, create(run).stdout.strip())


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (
            ["create", "--name", "ci", "--scope", "all"],
            "There is no scope 'all'. There are: read, catalog:write, measurements:write.",
        ),
        (["create", "--name", " ", "--scope", "read"], "A name has 1 to 100 characters"),
        (["create", "--name", "a\nb", "--scope", "read"], "A name has 1 to 100 characters"),
        (["create", "--name", "x" * 101, "--scope", "read"], "A name has 1 to 100 characters"),
        (["create", "--name", "ci", "--scope", "read", "--days", "0"], "0 is not in the range"),
        (["create", "--name", "ci"], "Missing option '--scope'"),
        (["revoke", "nobody"], "There is no token 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_made(
    run: Run, tokens: Callable[[], list[Token]], arguments: list[str], complaint: str
) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert complaint in result.output
    assert tokens() == []
