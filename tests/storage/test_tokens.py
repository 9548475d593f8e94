import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from service.storage.database import read_session, write_session
from service.storage.tables import ApiToken, AuditEvent
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


def made(sessions: sessionmaker[Session], name: str = "ci", lifetime: timedelta | None = DAY) -> tuple[Token, str]:
    with write_session(sessions) as session:
        return create_token(session, name, WRITE, "jo", lifetime)


def found(sessions: sessionmaker[Session], public_id: str) -> Token:
    with read_session(sessions) as session:
        token = find_token(session, public_id)
    assert token is not None
    return token


def revoke(sessions: sessionmaker[Session], public_id: str) -> None:
    with write_session(sessions) as session:
        revoke_token(session, public_id, "jo")


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


def test_the_database_holds_a_digest_and_not_the_token(sessions: sessionmaker[Session]) -> None:
    token, text = made(sessions)

    with read_session(sessions) as session:
        row = session.scalars(select(ApiToken)).one()
    secret = text.removeprefix(f"kvq_{token.id}_")
    assert row.digest == digest_of(text)
    assert not [value for value in vars(row).values() if secret in str(value)]


def test_a_token_is_known_by_its_whole_text(sessions: sessionmaker[Session]) -> None:
    token, text = made(sessions)
    _, other = made(sessions)

    assert is_secret_of(token, text)
    assert not is_secret_of(token, other)
    assert not is_secret_of(None, "")
    assert not is_secret_of(token, "é")


def test_a_token_says_who_made_it_for_what_and_until_when(sessions: sessionmaker[Session]) -> None:
    before = datetime.now(UTC)
    token, _ = made(sessions, "deploy")

    assert (token.name, token.created_by, token.scopes) == ("deploy", "jo", frozenset({"catalog:write"}))
    assert token.actor == f"deploy (token {token.id})"
    assert token.expires_at is not None
    assert before + DAY <= token.expires_at <= datetime.now(UTC) + DAY
    assert found(sessions, token.id) == token


def test_a_token_is_usable_until_it_expires(sessions: sessionmaker[Session]) -> None:
    token, _ = made(sessions, lifetime=DAY)
    assert token.expires_at is not None

    assert token.usable(token.expires_at - timedelta(microseconds=1))
    assert not token.usable(token.expires_at)
    assert made(sessions, lifetime=None)[0].usable(datetime.max.replace(tzinfo=UTC))


def test_a_revoked_token_stays_revoked_since_the_first_time(sessions: sessionmaker[Session]) -> None:
    token, _ = made(sessions)
    revoke(sessions, token.id)
    revoked_at = found(sessions, token.id).revoked_at

    revoke(sessions, token.id)

    assert found(sessions, token.id).revoked_at == revoked_at
    assert not found(sessions, token.id).usable(datetime.now(UTC))


def test_a_token_that_is_not_there_cannot_be_revoked(sessions: sessionmaker[Session]) -> None:
    with write_session(sessions) as session:
        assert revoke_token(session, "nobody", "jo") is None


def test_all_tokens_are_listed_the_oldest_first(sessions: sessionmaker[Session]) -> None:
    tokens = [made(sessions, name)[0] for name in ("a", "c", "b")]
    revoke(sessions, tokens[0].id)

    with read_session(sessions) as session:
        assert [token.name for token in list_tokens(session)] == ["a", "c", "b"]


def test_making_and_revoking_is_in_the_audit(sessions: sessionmaker[Session]) -> None:
    token, _ = made(sessions)
    revoke(sessions, token.id)
    revoke(sessions, token.id)

    with read_session(sessions) as session:
        events = session.scalars(select(AuditEvent).order_by(AuditEvent.id)).all()
    assert [(event.actor, event.action, event.subject) for event in events] == [
        ("jo", "token.created", f"token/{token.id}"),
        ("jo", "token.revoked", f"token/{token.id}"),
    ]


def test_its_last_use_is_noted_once_a_minute(sessions: sessionmaker[Session]) -> None:
    token, _ = made(sessions)
    first = datetime.now(UTC)
    for seconds in (0, 59, 60):
        with write_session(sessions) as session:
            note_use(session, found(sessions, token.id), first + timedelta(seconds=seconds))
        if seconds == 59:
            assert found(sessions, token.id).last_used_at == first

    assert found(sessions, token.id).last_used_at == first + timedelta(minutes=1)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_token_is_found_by_its_text(sessions: sessionmaker[Session]) -> None:
    token, text = made(sessions)

    assert TokenCache(sessions).find(text) == token


def test_a_token_made_since_works_at_once(sessions: sessionmaker[Session]) -> None:
    cache = TokenCache(sessions, seconds=60)
    _, unknown = new_secret()
    assert cache.find(unknown) is None

    token, text = made(sessions)

    assert cache.find(text) == token


def test_the_right_id_with_another_secret_finds_nothing(sessions: sessionmaker[Session]) -> None:
    _, text = made(sessions)
    other = made(sessions)[1]
    cache = TokenCache(sessions)
    forged = text[:16] + other[16:]

    assert cache.find(text)
    assert cache.find(forged) is None


def test_a_revoked_token_is_refused_once_the_stated_seconds_are_over(sessions: sessionmaker[Session]) -> None:
    clock = Clock()
    cache = TokenCache(sessions, seconds=5, clock=clock)
    token, text = made(sessions)
    assert cache.find(text)
    revoke(sessions, token.id)

    clock.seconds = 4.9
    assert cache.find(text)
    clock.seconds = 5.0
    assert cache.find(text) is None


def test_an_expired_token_is_refused_at_once(sessions: sessionmaker[Session]) -> None:
    cache = TokenCache(sessions, seconds=60)
    _, text = made(sessions, lifetime=timedelta(seconds=0))

    assert cache.find(text) is None


def test_a_token_in_memory_costs_no_sql(sessions: sessionmaker[Session]) -> None:
    cache = TokenCache(sessions, seconds=60)
    _, text = made(sessions)
    cache.find(text)
    engine = sessions.kw["bind"]
    engine.dispose()

    assert cache.find(text)
    assert engine.pool.checkedin() == 0


def test_no_more_than_so_many_tokens_are_kept(sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.token_cache._KEPT", 2)
    cache = TokenCache(sessions, seconds=60)
    tokens = [made(sessions) for _ in range(3)]
    for _, text in tokens:
        assert cache.find(text)

    assert sorted(cache._kept) == sorted(token.id for token, _ in tokens[1:])
