"""Programs that run another: sudo, numactl, srun, ssh and their likes, each with what of its words is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.commands.words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Wrapper(NamedTuple):
    """A program that runs another: its options that take a value, and how many words of its own follow them."""

    valued: frozenset[str] = frozenset()
    own: int = 0


_NUMA = frozenset(
    {
        *("-N", "-m", "-C", "-i", "-p", "-P", "-w", "--cpunodebind", "--membind", "--physcpubind", "--interleave"),
        *("--preferred", "--weighted-interleave"),
    }
)
_UVX = frozenset(
    {
        *("--with", "--from", "--python", "-p", "--torch-backend", "--index", "--index-url", "-i", "--extra-index-url"),
        *("--default-index", "--with-requirements", "--with-editable", "-w", "--index-strategy", "--prerelease"),
        *("--env-file", "--cache-dir", "-c", "--constraints", "--overrides", "--find-links", "-f", "--refresh-package"),
    }
)
WRAPPERS = {
    "sudo": Wrapper(frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-D", "-T", "-U"})),
    "doas": Wrapper(frozenset({"-u", "-C"})),
    "env": Wrapper(frozenset({"-u", "--unset", "-C", "--chdir"})),
    "exec": Wrapper(frozenset({"-a"})),
    "nohup": Wrapper(),
    "time": Wrapper(frozenset({"-o", "-f"})),
    "nice": Wrapper(frozenset({"-n"})),
    "ionice": Wrapper(frozenset({"-c", "-n"})),
    "chrt": Wrapper(own=1),
    "numactl": Wrapper(_NUMA),
    "taskset": Wrapper(own=1),
    "timeout": Wrapper(frozenset({"-s", "-k"}), own=1),
    "stdbuf": Wrapper(frozenset({"-o", "-e", "-i"})),
    "setsid": Wrapper(),
    "gosu": Wrapper(own=1),
    "su-exec": Wrapper(own=1),
    "unbuffer": Wrapper(),
    "caffeinate": Wrapper(frozenset({"-t", "-w"})),
    "proxychains": Wrapper(frozenset({"-f"})),
    "proxychains4": Wrapper(frozenset({"-f"})),
    "tini": Wrapper(),
    "dumb-init": Wrapper(),
    "trtllm-llmapi-launch": Wrapper(),
    "poetry": Wrapper(own=1),
    "uvx": Wrapper(_UVX),
    "command": Wrapper(),
}
PROMPTS = frozenset({"$", "%", ">", "!", "{", "then", "do", "else", "if", "while", "until"})
"""What may stand before a command without being one: a prompt that was copied too, and words of the shell itself."""
LAUNCHERS = frozenset(
    {
        *("srun", "salloc", "sbatch", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "torchrun", "ray", "accelerate"),
        *("flux", "jsrun", "bsub", "qsub", "deepspeed", "horovodrun", "ssh", "tmux", "screen", "su", "runuser", "wsl"),
        *("systemd-run", "watch", "script", "flock", "nsys", "ncu", "rocprof", "rocprofv3", "gcloud", "enroot"),
        *("conda", "mamba", "micromamba", "pixi", "uv", "pipx", "pipenv", "pdm", "hatch", "rye", "distrobox"),
        *("toolbox", "jetson-containers", "kubectl", "oc", "start", "cmd", "powershell", "pwsh"),
    }
)
"""Programs with so many options that the engine is looked for among all their words."""
_SHELL = Word("sh"), Word("-c")


def unwrapped(words: list[Word], wrapper: Wrapper) -> list[Word]:
    """What is left behind the options and the words of the wrapper's own."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        at += 1
        if text == "--":
            break
        at += text in wrapper.valued
    rest = words[at:]
    return rest[wrapper.own :] if wrapper.own else rest


def launched(words: list[Word], may_start: Callable[[Sequence[Word]], bool], common: frozenset[str]) -> list[Word]:
    """What follows a launcher's own options: from the first word that is a program or a shell with a script.

    Where there is none, a word of several is taken for a script: `ssh host 'vllm serve …'`, `sbatch --wrap=…`.
    """
    # `kubectl exec` runs a program as exec does, in a pod that it names first.
    words = words[1:] if words and words[0].text == "exec" else words
    starts = [at for at in range(len(words)) if may_start(words[at:])]
    # A pod, a container or an environment may have such a name too.
    named = next((at for at in starts if words[at].text not in common), None)
    if starts:
        return words[named if named is not None else starts[0] :]
    script = next((_script(word) for word in words if " " in word.text.strip()), None)
    return [*_SHELL, script] if script is not None else []


def _script(word: Word) -> Word:
    """The script of a word, behind the name of the option that it belongs to."""
    option, equals, value = word.text.partition("=")
    return Word(value, word.expanded) if equals and option.startswith("--") and " " not in option else word
