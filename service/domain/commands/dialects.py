"""What people paste around a command: prompts, fences of Markdown, units of systemd, PowerShell's and cmd's own ways.

All of it is turned into what a POSIX shell would read, so that there is one splitter.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t]*\r?$", re.MULTILINE)
_ENVIRONMENT = r"(?:\([\w.-]{1,40}\)[ \t]+)?"
"""An activated environment, as (base); no command begins like that."""
_PROMPT = re.compile(
    rf"^[ \t]*{_ENVIRONMENT}(?:[\w.-]{{1,64}}@[\w.-]{{1,64}}(?::[^\s#$%]{{0,200}})?[#$%]"
    rf"|\[[\w.-]{{1,64}}@[\w.-]{{1,64}} [^\]\n]{{0,100}}\][#$%]"
    r"|PS(?: [A-Za-z]:[^>\n]{0,200})?>|[A-Za-z]:\\[^>\n]{0,200}>)[ \t]+"
    rf"|^[ \t]*\([\w.-]{{1,40}}\)[ \t]+(?=[\w./$])",
    re.MULTILINE | re.ASCII,
)
_GOES_ON = re.compile(r"(?:\^|(?<=[ \t])`)[ \t]*(?:\r?\n|\Z)")
"""The signs at a line's end by which cmd and PowerShell take the next one to it."""
_WINDOWS = re.compile(
    r"""(?:^|[\s"'=])(?:[A-Za-z]:|\.{1,2}|%\w+%|\$env:\w+)\\[\w.]|\.exe\b|\^\r?\n|[ \t]`\r?\n|\$env:\w""",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_SET = re.compile(r"\$env:(\w+)[ \t]*=[ \t]*", re.IGNORECASE | re.ASCII)
_STARTS = re.compile(r"^[ \t]*ExecStart=[-@:+!]*", re.MULTILINE)
_SETS = re.compile(r"^[ \t]*Environment=((?:[^\\\n]++|\\\r?\n|\\.)*+)\n?", re.MULTILINE)
_OF_UNIT = re.compile(r"^[ \t]*(?:\[[A-Z]\w*\]|(?!ExecStart=|Environment=)[A-Z][A-Za-z]+=.*)$", re.MULTILINE)
"""Lines of a systemd unit that start nothing."""


class Pasted(NamedTuple):
    """A text as a POSIX shell would read it; on `windows` a backslash within a word separates folders."""

    text: str
    windows: bool


def posix(text: str) -> Pasted:
    """The command without what was copied along with it."""
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    windows = _WINDOWS.search(text) is not None
    if windows:
        text = _SET.sub(r"export \1=", _GOES_ON.sub(lambda _: "\\\n", text))
    if "ExecStart=" in text and _STARTS.search(text):
        # Whatever their order: all variables of a unit are set before it starts anything.
        sets = "".join(f"export {each}\n" for each in _SETS.findall(text))
        text = sets + _STARTS.sub("", _OF_UNIT.sub("", _SETS.sub("", text)))
    return Pasted(_PROMPT.sub("", text), windows)
