"""`docker run` and its likes: what a container gets of its host, the image, and the words after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.domain.commands.images import Image, image_of
from service.domain.commands.words import Word
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

DOCKER = frozenset({"docker", "podman", "nerdctl", "docker-compose", "podman-compose"})
APPTAINER = frozenset({"apptainer", "singularity"})
KUBECTL = frozenset({"kubectl", "oc"})
CONTAINERS = DOCKER | APPTAINER

_RUNS = frozenset({"run", "create", "exec"})
_INSIDE = frozenset({"exec", "shell"})
_SWITCHES = frozenset(
    {
        *("--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck"),
        *("--publish-all", "--quiet", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--replace"),
        *("--no-deps", "--service-ports", "--no-TTY", "-T", "--use-aliases", "--build", "--quiet-pull", "--rmi"),
        *("--remove-orphans", "--env-host", "--no-hosts", "--tls-verify", "--rootfs", "--no-hostname"),
    }
)
_JOINED = re.compile(r"-[acehlmpuvw].+", re.DOTALL)
"""A short option with its value in one word, such as -p8000:8000."""
_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
_OF_APPTAINER = frozenset(
    {
        *(
            "-B",
            "--bind",
            "--env",
            "--env-file",
            "-H",
            "--home",
            "--pwd",
            "--cwd",
            "-W",
            "--workdir",
            "-S",
            "--scratch",
        ),
        *("-o", "--overlay", "--mount", "--fusemount", "--app", "--hostname", "--network", "--network-args", "--dns"),
        *("--security", "--add-caps", "--drop-caps", "--apply-cgroups", "--memory", "--cpus", "--cpuset-cpus"),
    }
)
"""Options of apptainer that take a value."""
_OF_KUBECTL = frozenset(
    {"-n", "--namespace", "--image", "--env", "--context", "-l", "--labels", "--overrides", "--port"}
)
"""Options of `kubectl run` that take a value."""
_DEVICE = re.compile(r"nvidia\.com/gpu=(.+)")


@dataclass(frozen=True, slots=True)
class Container:
    """What a container runs; `gpus` is None where it sees all of them.

    `shares` says that it sees the variables of its host.
    """

    image: Image
    gpus: int | None
    variables: tuple[Word, ...]
    words: list[Word]
    shares: bool = False
    entered: bool = False
    """Whether the words are all that is run, whatever the image starts."""


def container(program: str, rest: Sequence[Word]) -> Container | None:
    """Read `docker run [options] image [words]` and its likes; None for other commands of the program."""
    if program in APPTAINER:
        return _apptainer(rest)
    return _kubectl(rest) if program in KUBECTL else _docker(rest)


def _docker(rest: Sequence[Word]) -> Container | None:
    verb = next((at for at, word in enumerate(rest) if word.text in _RUNS), None)
    if verb is None:
        return None
    options, at = _options(rest, verb + 1)
    if at >= len(rest):
        raise ValidationError(Fault("/command", f"`{rest[0].text} {rest[verb].text}` names no image."))
    image, words = image_of(rest[at].text), list(rest[at + 1 :])
    if rest[at].text.rpartition("/")[2].startswith("llama.cpp") and words and words[0].text in {"--server", "-s"}:
        image, words = image._replace(engine="llama.cpp", program="llama-server"), words[1:]
    entry = [value.text for option, value in options if option == "--entrypoint"]
    entered = bool(entry) or rest[verb].text == "exec"
    words = [*(Word(text) for text in entry if text), *words]
    variables = tuple(value for option, value in options if option in {"-e", "--env"})
    return Container(image, _gpus(options), variables, words, entered=entered)


def _options(rest: Sequence[Word], at: int) -> tuple[list[tuple[str, Word]], int]:
    found = []
    while at < len(rest) and rest[at].text.startswith("-"):
        option, equals, value = rest[at].text.partition("=")
        if equals and option.startswith("--"):
            found.append((option, Word(value, rest[at].expanded)))
        elif rest[at].text.startswith("-e") and len(rest[at].text) > len("-e"):
            found.append(("-e", Word(rest[at].text[2:].removeprefix("="), rest[at].expanded)))
        elif not (option in _SWITCHES or _SHORT_SWITCHES.fullmatch(option) or _JOINED.fullmatch(option)):
            at += 1
            found.append((option, rest[at] if at < len(rest) else Word("")))
        at += 1
    return found, at


def _apptainer(rest: Sequence[Word]) -> Container | None:
    """`apptainer run|exec [options] image [words]`; a container that sees its host's variables and devices."""
    verb = next((at for at, word in enumerate(rest) if word.text in {"run", "exec"}), None)
    if verb is None:
        return None
    options, at = _valued(rest, verb + 1, _OF_APPTAINER)
    if at >= len(rest):
        raise ValidationError(Fault("/command", f"`{rest[0].text} {rest[verb].text}` names no image."))
    variables = [
        Word(part, value.expanded) for option, value in options if option == "--env" for part in _pairs(value.text)
    ]
    entered = rest[verb].text == "exec"
    image, words = image_of(rest[at].text), list(rest[at + 1 :])
    return Container(image, None, tuple(variables), words, shares=True, entered=entered)


def _pairs(text: str) -> list[str]:
    """`A=1,B=2` as its pairs; a comma before anything but a name belongs to the value."""
    return re.split(r",(?=[A-Za-z_]\w*=)", text)


def _kubectl(rest: Sequence[Word]) -> Container | None:
    """`kubectl run name --image=… -- words`: arguments of the image, or with --command all that is run."""
    end = next((at for at, word in enumerate(rest) if word.text == "--"), len(rest))
    own = rest[1:end]
    if "run" not in [word.text for word in own]:
        return None
    options, _ = _valued([word for word in own if word.text != "run"], 0, _OF_KUBECTL, all_=True)
    image = next((value.text for option, value in options if option == "--image"), None)
    if image is None:
        raise ValidationError(Fault("/command", f"`{rest[0].text} run` names no image."))
    variables = tuple(value for option, value in options if option == "--env")
    entered = any(word.text in {"--command", "--command=true"} for word in own)
    return Container(image_of(image), None, variables, list(rest[end + 1 :]), entered=entered)


def _valued(
    rest: Sequence[Word], at: int, valued: Collection[str], *, all_: bool = False
) -> tuple[list[tuple[str, Word]], int]:
    """Options with their values, up to the first word that is none; with `all_` words between them are passed over."""
    found = []
    while at < len(rest) and (all_ or rest[at].text.startswith("-")):
        option, equals, value = rest[at].text.partition("=")
        if equals:
            found.append((option, Word(value, rest[at].expanded)))
        elif option in valued:
            at += 1
            found.append((option, rest[at] if at < len(rest) else Word("")))
        at += 1
    return found, at


def _gpus(options: Sequence[tuple[str, Word]]) -> int | None:
    """Devices that options name: `--gpus` with `all`, a number or a list, or `--device nvidia.com/gpu=…` for each."""
    said = next((value.text for option, value in reversed(options) if option == "--gpus"), None)
    if said is None:
        each = [_DEVICE.fullmatch(value.text) for option, value in options if option == "--device"]
        devices = {found[1] for found in each if found}
        return len(devices) if devices and "all" not in devices else None
    text = said.strip().strip("\"'")
    if text.startswith("device="):
        return len([part for part in text.removeprefix("device=").split(",") if part])
    if text.startswith("count="):
        text = text.removeprefix("count=")
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None
