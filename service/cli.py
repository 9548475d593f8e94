"""The service's own command, `kvquote-server`. Each command imports what it needs, so that `--help` answers at once."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import click

from service import __version__
from service.cli_measurements import measurements
from service.cli_shared import CommandError, NoDatabaseError, engine, in_plain_words, settings, user

if TYPE_CHECKING:
    from service.settings import Settings
    from service.storage.catalog_files import LoadReport, WaitingModel
    from service.storage.tokens import Scope, Token

_LINES_SHOWN: Final = 40
_DIFFERS: Final = 1
_LONGEST_NAME: Final = 100
_TOKEN_DAYS: Final = 365
_Given = Path | tuple[Path, ...] | None
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _catalog_option(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option("--folder", type=folder, help="Catalog files; by default those that come with the service.")(
        command
    )


def _folder(given: Path | None) -> Path:
    from service.storage.migrations import data_folder

    return given or data_folder("catalog")


@click.group()
@click.version_option(__version__, prog_name="kvquote-server")
def main() -> None:
    """Run and look after a kvquote service. DATABASE_URL names its database."""


main.add_command(measurements)


@main.group()
def db() -> None:
    """The database's schema."""


@db.command("upgrade")
@click.argument("revision", default="head")
@in_plain_words
def db_upgrade(revision: str) -> None:
    """Migrate to REVISION, by default the newest. Safe to run twice, at the same time too."""
    from service.storage import migrations

    with engine(makes=True) as opened:
        migrations.upgrade(opened.url, revision)
        with opened.connect() as connection:
            click.echo(f"The database is at revision {migrations.current_revision(connection)}.")


@db.command("current")
@in_plain_words
def db_current() -> None:
    """Print the schema's revision; ends with 1 where it is not the newest."""
    from service.storage import migrations

    newest = migrations.head_revision()
    try:
        with engine() as opened, opened.connect() as connection:
            revision = migrations.current_revision(connection)
    except NoDatabaseError:
        revision = None
    click.echo(f"{revision or 'not migrated'}{' (newest)' if revision == newest else f' (newest is {newest})'}")
    if revision != newest:
        sys.exit(_DIFFERS)


@main.group()
def catalog() -> None:
    """The catalog of models, GPUs, instances, number formats and engines."""


@catalog.command("check")
@_catalog_option
@in_plain_words
def catalog_check(folder: Path | None) -> None:
    """Check the files alone, without a database; names every problem."""
    from service.storage.catalog_files import read_catalog_files, waiting_for_reader

    entries = read_catalog_files(_folder(folder))
    click.echo(f"{len(entries)} entries, all well-formed.")
    for architecture, models in _by_architecture(waiting_for_reader(entries)).items():
        click.echo(f"{len(models)} wait for a reader of {architecture}: {', '.join(models)}")


@catalog.command("diff")
@_catalog_option
@in_plain_words
def catalog_diff(folder: Path | None) -> None:
    """Show what loading would change; ends with 1 where it would change something."""
    report = _load(folder, dry_run=True)
    _echo_report(report, lines_shown=len(report.lines))
    if report.created or report.changed or report.deleted:
        sys.exit(_DIFFERS)


@catalog.command("load")
@_catalog_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--overwrite", is_flag=True, help="Let the files win over what was changed by other ways.")
@click.option("--author", default=None, help="Who the revision is by; by default the system's user.")
@in_plain_words
def catalog_load(folder: Path | None, *, dry_run: bool, overwrite: bool, author: str | None) -> None:
    """Bring the stored catalog to what the files say, as one revision. Loading the same files again changes nothing.

    What was changed by other ways than files is kept, and shown with what the files would make of it.
    """
    _echo_report(_load(folder, dry_run=dry_run, overwrite=overwrite, author=author))
    if dry_run:
        click.echo("Nothing was written.")


def _load(folder: Path | None, *, dry_run: bool, overwrite: bool = False, author: str | None = None) -> LoadReport:
    from service.storage.catalog_files import load

    with engine() as opened:
        return load(opened, _folder(folder), author or user(), dry_run=dry_run, overwrite=overwrite)


def _echo_report(report: LoadReport, lines_shown: int = _LINES_SHOWN) -> None:
    for line in report.lines[:lines_shown]:
        click.echo(line)
    if len(report.lines) > lines_shown:
        click.echo(f"… and {len(report.lines) - lines_shown} more lines")
    for line in report.conflict_lines:
        click.echo(line if line.startswith(" ") else f"kept as it is: {line}")
    if report.conflicts:
        click.echo("catalog load --overwrite would take the files' word instead.")
    _echo_waiting(report.waiting)
    counts = (f"{getattr(report, name)} {name}" for name in ("created", "changed", "deleted", "unchanged"))
    click.echo(f"Catalog revision {report.revision}: {', '.join(counts)}.")


def _echo_waiting(waiting: tuple[WaitingModel, ...]) -> None:
    if waiting:
        architectures = len(_by_architecture(waiting))
        click.echo(
            f"{len(waiting)} models wait for a reader of their {architectures} architectures (see catalog check)."
        )


def _by_architecture(waiting: Iterable[WaitingModel]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for model in sorted(waiting, key=lambda model: model.architecture):
        grouped.setdefault(model.architecture, []).append(model.id)
    return grouped


@main.group()
def models() -> None:
    """The models of the catalog."""


@models.command("import")
@click.argument("config", type=_FILE)
@click.option("--hub-id", required=True, help="Hugging Face id, owner/name; the entry's id is its last part.")
@click.option("--index", type=_FILE, help="model.safetensors.index.json of the checkpoint.")
@click.option("--header", "headers", type=_FILE, multiple=True, help="A safetensors file; repeat it for all of them.")
@click.option("--gguf", type=_FILE, help="A GGUF file.")
@click.option("--licence", default="unknown", show_default=True, help="Licence as the hub tags it.")
@click.option("--replace", is_flag=True, help="Take the place of an entry of that id.")
@click.option("--dry-run", is_flag=True, help="Print what would be stored.")
@in_plain_words
def models_import(config: Path, hub_id: str, licence: str, *, replace: bool, dry_run: bool, **files: _Given) -> None:
    """Take a model into the catalog from its CONFIG and, where given, what its files' headers say; no more is read."""
    from service.domain.importing import Naming
    from service.storage import model_files
    from service.storage.catalog_schema import CatalogSchemas

    if sum(map(bool, files.values())) > 1:
        raise CommandError("Give one of --index, --header and --gguf, not several.")
    asked = model_files.ModelFiles(config=config, **files)  # type: ignore[arg-type]  # as the options say
    with engine() as opened:
        facts = model_files.read_model(opened, asked, Naming(hub_id, model_files.today(), licence=licence))
        if dry_run:
            return click.echo(json.dumps(facts, indent=1))
        schemas = CatalogSchemas(_folder(None) / "schema")
        revision = model_files.store_model(opened, facts, user(), schemas, replace=replace)
    return click.echo(f"Model {facts['id']}: {f'catalog revision {revision}' if revision else 'nothing changed'}.")


@main.group()
def token() -> None:
    """The tokens of those who may write."""


@token.command("create")
@click.option("--name", required=True, help="Whose it is; revisions and the audit show it.")
@click.option(
    "--scope", "scopes", multiple=True, required=True, help="What it may do, such as catalog:write; repeat it."
)
@click.option("--days", type=click.IntRange(1, 3650), help=f"Days until it expires.  [default: {_TOKEN_DAYS}]")
@click.option("--never-expires", is_flag=True, help="Instead of --days.")
@in_plain_words
def token_create(name: str, scopes: tuple[str, ...], days: int | None, *, never_expires: bool) -> None:
    """Make a token and print it, this once: only its digest is kept."""
    from service.storage.database import writing
    from service.storage.tokens import create_token

    if never_expires and days:
        raise CommandError("Give --days or --never-expires, not both.")
    lifetime = None if never_expires else timedelta(days=days or _TOKEN_DAYS)
    with engine() as opened, writing(opened) as connection:
        made, text = create_token(connection, _token_name(name), _scopes(scopes), user(), lifetime)
    click.echo(f"Token {made.id} for {made.name}: {' '.join(sorted(made.scopes))}, {_until(made)}.", err=True)
    click.echo("Keep it now: it is not shown again.", err=True)
    click.echo(text)


@token.command("list")
@in_plain_words
def token_list() -> None:
    """List every token there ever was; none of them can be read back."""
    from service.storage.database import reading
    from service.storage.tokens import list_tokens

    with engine() as opened, reading(opened) as connection:
        for known in list_tokens(connection):
            used = f"last wrote {known.last_used_at:%Y-%m-%d %H:%M}Z" if known.last_used_at else "never wrote"
            click.echo(f"{known.id}  {known.name}  {' '.join(sorted(known.scopes))}  {_until(known)}, {used}")


@token.command("revoke")
@click.argument("public_id")
@in_plain_words
def token_revoke(public_id: str) -> None:
    """Make the token of that PUBLIC_ID unusable, in every worker within KVQUOTE_TOKEN_CACHE_SECONDS."""
    from service.storage.database import writing
    from service.storage.tokens import revoke_token

    with engine() as opened, writing(opened) as connection:
        revoked = revoke_token(connection, public_id, user())
    if revoked is None:
        raise CommandError(f"There is no token {public_id!r}; see kvquote-server token list.")
    click.echo(f"Token {revoked.id} for {revoked.name} is revoked.")


def _token_name(name: str) -> str:
    if not (name.isprintable() and 0 < len(name.strip()) <= _LONGEST_NAME):
        raise CommandError(f"A name has 1 to {_LONGEST_NAME} characters that can be seen.")
    return name.strip()


def _scopes(names: tuple[str, ...]) -> list[Scope]:
    from service.storage.tokens import Scope

    unknown = [name for name in names if name not in [*Scope]]
    if unknown:
        raise CommandError(f"There is no scope {unknown[0]!r}. There are: {', '.join(Scope)}.")
    return [Scope(name) for name in names]


def _until(known: Token) -> str:
    if known.revoked_at:
        return f"revoked {known.revoked_at:%Y-%m-%d %H:%M}Z"
    return f"until {known.expires_at:%Y-%m-%d %H:%M}Z" if known.expires_at else "never expires"


@main.command()
@in_plain_words
def openapi() -> None:
    """Print the OpenAPI description that the service would answer at /openapi.json."""
    from service.app import create_app

    # Its log goes to the same place, and would spoil the document.
    quiet = replace(settings(), log_level="critical")
    click.echo(create_app(quiet).test_client().get("/openapi.json").get_data(as_text=True), nl=False)


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--check", is_flag=True, help="Only look whether the settings are right and the address is free.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@in_plain_words
def serve(*, check: bool, arguments: tuple[str, ...]) -> None:
    """Serve with gunicorn, in place of this process; ARGUMENTS go to it."""
    # Before gunicorn, whose workers would each die of a wrong variable with a traceback.
    chosen = settings()
    if not arguments:
        _refuse_taken(chosen)
    if check:
        return
    configuration = Path(__file__).with_name("gunicorn.conf.py")
    command: list[Any] = [sys.executable, "-m", "gunicorn", "service.wsgi:app", "-c", str(configuration), *arguments]
    os.execv(sys.executable, command)  # noqa: S606  # no shell is the point


def _refuse_taken(settings: Settings) -> None:
    """One line where the port is taken: gunicorn tries it five times and then dies of it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            place = f"{settings.host}:{settings.port}"
            raise CommandError(f"Cannot serve on {place}: {error.strerror}. PORT=... names another port.") from error


if __name__ == "__main__":
    main()
