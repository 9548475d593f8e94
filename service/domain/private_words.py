"""Words that must not be kept, since whoever may read may read them: paths and addresses, machines, secrets."""

from __future__ import annotations

import re
from typing import Final

# Absolute, relative and home paths, drives and URLs, wherever in a text they begin; a hub id is none of them.
_leaks: Final = re.compile(r"(?:^|[\s=\"',:])(?:~|\.{1,2})?/\S|(?:^|[\s=\"'])[A-Za-z]:\\|\\\\|://").search

# What hands over a secret by its name; `--tokenizer`, `eos_token` and `--max-tokens` do not.
_HANDED_OVER: Final = r"(?:api[-_]?key|(?:hf|hub|auth|access|bearer)[-_]token|passw(?:or)?d|secret|authorization)"
_secret_name: Final = re.compile(
    rf"(?:[\w-]*[-_])?(?:{_HANDED_OVER}|key[-_]id|credentials?)|token", re.ASCII | re.IGNORECASE
).fullmatch

# Variables, flags, members and headers of such a name, and keys by the forms that those who issue them print.
_secrets: Final = re.compile(
    r"(?:^|[\s\"'=:])(?:(?:\w*_)?(?:TOKEN|KEY|KEY_ID|PASS|PWD)|\w*(?:APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?))"
    r"=[\"']?(?=[^\s\"'])"
    rf"|(?:^|[\s\"'=:])(?i:(?:\w*_)?{_HANDED_OVER})=[\"']?(?=[^\s\"'])"
    rf"|(?:^|[\s\"',])-{{1,2}}(?i:(?:[\w-]*[-_])?{_HANDED_OVER}|hft|token)(?![\w-])"
    rf"|[\"'](?i:(?:[\w-]*[-_])?{_HANDED_OVER})\\?[\"']\s*:"
    r"|(?<!\w)(?i:authorization\s*:|bearer\s+[\w.~+-]{8})"
    r"|(?<!\w)(?:hf_[^\W_]{16}|sk-(?:\w{1,10}-){0,3}\w{16}|kvq_\w{8}|gh[oprsu]_\w{16}|github_pat_\w{16}"
    r"|(?:glpat|nvapi)-[\w-]{16}|xox[a-z]-[\w-]{10}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30}|eyJ[\w-]{10,500}\.[\w-]{4}"
    r"|BEGIN [A-Z ]{0,20}PRIVATE KEY)",
    re.ASCII,
).search
# What a driver tells one card from every other by.
_devices: Final = re.compile(r"(?<!\w)(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-", re.ASCII | re.IGNORECASE).search
# A word that is a machine's name or an address of a private network; 10.2.0.19 may as well be a release.
_machines: Final = re.compile(
    r"(?:[\w-]+\.)+(?:internal|intra|local|localdomain|lan|corp|home|arpa|com|net|org|edu|gov|mil|io|cloud)"
    r"|(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}(?::\d+)?",
    re.ASCII | re.IGNORECASE,
).fullmatch
# What an engine listens on or joins, but for the addresses that every machine has.
_EVERYBODY_S: Final = r"(?!(?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[?::1?\]?)(?::\d+)?(?:[\s\"',]|$))"
_hosts: Final = re.compile(
    rf"(?:^|[\s\"',])--?(?!no-)(?:[\w-]*[-_])?(?:host|hostname|addr|address|ips?|rpc|nodelist)[\s=\"',]+{_EVERYBODY_S}[^\s\"',-]"
    rf"|(?:^|[\s\"'=])\w*(?:HOST|HOSTNAME|ADDR|_IP)={_EVERYBODY_S}[^\s\"']"
    rf"|[\"'](?:\w*_)?(?:host|hostname|addr|address|ip)\\?[\"']\s*:\s*\\?[\"']{_EVERYBODY_S}[^\\\"']"
    r"|(?<![\w.])(?!0\.0\.0\.0|127\.0\.0\.1)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
    # A command on another machine, and a prompt that was copied too; neither vllm@latest nor an image's digest.
    r"|(?<![\w.-])ssh\s|[\w-]@(?!sha256:|latest\b)[A-Za-z]",
    re.ASCII,
).search


def is_place(text: str) -> bool:
    """Whether a text holds a path or an address."""
    return _leaks(text) is not None


def holds_secret(text: str) -> bool:
    """Whether a text hands over a key, a token or a password."""
    return _secrets(text) is not None


def names_secret(name: str) -> bool:
    """Whether what has this name is a key, a token or a password."""
    return _secret_name(name) is not None


def names_device(text: str) -> bool:
    """Whether a text tells one card from all others."""
    return _devices(text) is not None


def names_machine(text: str) -> bool:
    """Whether a text is the name or the address of a machine."""
    return _machines(text) is not None


def private_in_command(command: str) -> str | None:
    """Why a command line cannot be kept, as what follows its name in a sentence; None where it can."""
    if is_place(command):
        return "names a path or an address, which is not kept: give its settings by name"
    if holds_secret(command):
        return "holds a key, a token or a password, which is not kept: leave it out"
    if _devices(command):
        return "names one card of all, which is not kept: leave its id out"
    if _hosts(command):
        return "names a machine, which is not kept: leave its flag out"
    return None
