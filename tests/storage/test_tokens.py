import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, select

from service.storage.database import reading, writing
from service.storage.tables import API_TOKEN, AUDIT_EVENT
from service.storage.token_cache import TokenCache
from service.storage.tokens import (
    Scope,
    Token,
    create_token,
    digest_of,
    find_token,
    is_secret_of,
    list_tokens,
    new_secret,
    note_use,
    public_id_of,
    revoke_token,
)

WRITE = [Scope.CATALOG_WRITE]
DAY = timedelta(days=1)


def made(engine: Engine, name: str = "ci", lifetime: timedelta | None = DAY) -> tuple[Token, str]:
    with writing(engine) as connection:
        return create_token(connection, name, WRITE, "jo", lifetime)


def found(engine: Engine, public_id: str) -> Token:
    with reading(engine) as connection:
        token = find_token(connection, public_id)
    assert token is not None
    return token


def revoke(engine: Engine, public_id: str) -> None:
    with writing(engine) as connection:
        revoke_token(connection, public_id, "jo")


def test_a_token_has_a_prefix_a_public_id_a_secret_and_a_checksum() -> None:
    public_id, text = new_secret()

    assert re.fullmatch(r"kvq_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}", text)
    assert public_id_of(text) == public_id


def test_no_two_tokens_are_alike() -> None:
    assert len({new_secret()[1] for _ in range(200)}) == 200


def test_every_single_mistyped_letter_is_noticed_without_the_database() -> None:
    _, text = new_secret()
    wrong = [text[:at] + ("b" if letter == "a" else "a") + text[at + 1 :] for at, letter in enumerate(text)]

    assert [public_id_of(mistyped) for mistyped in wrong] == [None] * len(text)


@pytest.mark.parametrize("text", ["", "kvq_", "x" * 8192, "é" * 64, "kvq_" + "0" * 11 + "_" + "0" * 49, "\x00"])
def test_what_cannot_be_a_token_has_no_public_id(text: str) -> None:
    assert public_id_of(text) is None


def test_the_database_holds_a_digest_and_not_the_token(engine: Engine) -> None:
    token, text = made(engine)

    with reading(engine) as connection:
        row = connection.execute(select(API_TOKEN)).one()
    secret = text.removeprefix(f"kvq_{token.id}_")
    assert row.digest == digest_of(text)
    assert not [value for value in row if secret in str(value)]


def test_a_token_is_known_by_its_whole_text(engine: Engine) -> None:
    token, text = made(engine)
    _, other = made(engine)

    assert is_secret_of(token, text)
    assert not is_secret_of(token, other)
    assert not is_secret_of(None, "")
    assert not is_secret_of(token, "é")


def test_a_token_says_who_made_it_for_what_and_until_when(engine: Engine) -> None:
    before = datetime.now(UTC)
    token, _ = made(engine, "deploy")

    assert (token.name, token.created_by, token.scopes) == ("deploy", "jo", frozenset({"catalog:write"}))
    assert token.actor == f"deploy (token {token.id})"
    assert token.expires_at is not None
    assert before + DAY <= token.expires_at <= datetime.now(UTC) + DAY
    assert found(engine, token.id) == token


def test_a_token_is_usable_until_it_expires(engine: Engine) -> None:
    token, _ = made(engine, lifetime=DAY)
    assert token.expires_at is not None

    assert token.usable(token.expires_at - timedelta(microseconds=1))
    assert not token.usable(token.expires_at)
    assert made(engine, lifetime=None)[0].usable(datetime.max.replace(tzinfo=UTC))


def test_a_revoked_token_stays_revoked_since_the_first_time(engine: Engine) -> None:
    token, _ = made(engine)
    revoke(engine, token.id)
    revoked_at = found(engine, token.id).revoked_at

    revoke(engine, token.id)

    assert found(engine, token.id).revoked_at == revoked_at
    assert not found(engine, token.id).usable(datetime.now(UTC))


def test_a_token_that_is_not_there_cannot_be_revoked(engine: Engine) -> None:
    with writing(engine) as connection:
        assert revoke_token(connection, "nobody", "jo") is None


def test_all_tokens_are_listed_the_oldest_first(engine: Engine) -> None:
    tokens = [made(engine, name)[0] for name in ("a", "c", "b")]
    revoke(engine, tokens[0].id)

    with reading(engine) as connection:
        assert [token.name for token in list_tokens(connection)] == ["a", "c", "b"]


def test_making_and_revoking_is_in_the_audit(engine: Engine) -> None:
    token, _ = made(engine)
    revoke(engine, token.id)
    revoke(engine, token.id)

    with reading(engine) as connection:
        events = connection.execute(select(AUDIT_EVENT).order_by(AUDIT_EVENT.c.id)).all()
    assert [(event.actor, event.action, event.subject) for event in events] == [
        ("jo", "token.created", f"token/{token.id}"),
        ("jo", "token.revoked", f"token/{token.id}"),
    ]


def test_its_last_use_is_noted_once_a_minute(engine: Engine) -> None:
    token, _ = made(engine)
    first = datetime.now(UTC)
    for seconds in (0, 59, 60):
        with writing(engine) as connection:
            note_use(connection, found(engine, token.id), first + timedelta(seconds=seconds))
        if seconds == 59:
            assert found(engine, token.id).last_used_at == first

    assert found(engine, token.id).last_used_at == first + timedelta(minutes=1)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_token_is_found_by_its_text(engine: Engine) -> None:
    token, text = made(engine)

    assert TokenCache(engine).find(text) == token


def test_a_token_made_since_works_at_once(engine: Engine) -> None:
    cache = TokenCache(engine, seconds=60)
    _, unknown = new_secret()
    assert cache.find(unknown) is None

    token, text = made(engine)

    assert cache.find(text) == token


def test_the_right_id_with_another_secret_finds_nothing(engine: Engine) -> None:
    _, text = made(engine)
    other = made(engine)[1]
    cache = TokenCache(engine)
    forged = text[:16] + other[16:]

    assert cache.find(text)
    assert cache.find(forged) is None


def test_a_revoked_token_is_refused_once_the_stated_seconds_are_over(engine: Engine) -> None:
    clock = Clock()
    cache = TokenCache(engine, seconds=5, clock=clock)
    token, text = made(engine)
    assert cache.find(text)
    revoke(engine, token.id)

    clock.seconds = 4.9
    assert cache.find(text)
    clock.seconds = 5.0
    assert cache.find(text) is None


def test_an_expired_token_is_refused_at_once(engine: Engine) -> None:
    cache = TokenCache(engine, seconds=60)
    _, text = made(engine, lifetime=timedelta(seconds=0))

    assert cache.find(text) is None


def test_a_token_in_memory_costs_no_sql(engine: Engine) -> None:
    cache = TokenCache(engine, seconds=60)
    _, text = made(engine)
    cache.find(text)
    engine.dispose()
    fresh = engine.pool.status()

    assert cache.find(text)
    assert engine.pool.status() == fresh


def test_no_more_than_so_many_tokens_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.token_cache._KEPT", 2)
    cache = TokenCache(engine, seconds=60)
    tokens = [made(engine) for _ in range(3)]
    for _, text in tokens:
        assert cache.find(text)

    assert sorted(cache._kept) == sorted(token.id for token, _ in tokens[1:])
