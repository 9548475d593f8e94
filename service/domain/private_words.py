"""Words that must not be kept, since whoever may read may read them: paths and addresses, machines, secrets."""

from __future__ import annotations

import re
from typing import Final

# Absolute, relative and home paths, drives and URLs, wherever in a text they begin; a hub id is none of them.
_leaks: Final = re.compile(r"(?:^|[\s=\"',:])(?:~|\.{1,2})?/\S|(?:^|[\s=\"'])[A-Za-z]:\\|\\\\|://").search

# A variable or a flag that hands over a secret, or a token by its form; `--tokenizer` and `--max-tokens` are none.
_secrets: Final = re.compile(
    r"(?:^|[\s\"'=])(?:\w*_)?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD)=(?=[^\s\"'])"
    r"|(?:^|[\s\"',])-{1,2}(?:[\w-]*[-_])?(?:api[-_]key|hf[-_]token|auth[-_]token|password|secret)(?![\w-])"
    r"|(?<!\w)(?:hf_[^\W_]{16}|sk-\w{16}|kvq_\w{8})",
    re.ASCII,
).search
# What an engine listens on or joins, but for the addresses that every machine has.
_EVERYBODY_S: Final = r"(?!(?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[?::1?\]?)(?::\d+)?(?:[\s\"',]|$))"
_hosts: Final = re.compile(
    rf"(?:^|[\s\"',])--?(?!no-)(?:[\w-]*[-_])?(?:host|hostname|addr|address|ips?|rpc)[\s=\"',]+{_EVERYBODY_S}[^\s\"',-]"
    rf"|(?:^|[\s\"'=])\w*(?:HOST|HOSTNAME|ADDR|_IP)={_EVERYBODY_S}[^\s\"']"
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


def private_in_command(command: str) -> str | None:
    """Why a command line cannot be kept, as what follows its name in a sentence; None where it can."""
    if is_place(command):
        return "names a path or an address, which is not kept: give its settings by name"
    if holds_secret(command):
        return "holds a key, a token or a password, which is not kept: leave it out"
    if _hosts(command):
        return "names a machine, which is not kept: leave its flag out"
    return None
