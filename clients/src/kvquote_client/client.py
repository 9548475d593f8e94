"""`Client`: all that a kvquote service has, typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kvquote_client.catalog import Dtypes, Engines, Gpus, Instances, Models
from kvquote_client.learning import Accuracy, Calibrations
from kvquote_client.measurements import Measurements
from kvquote_client.sending import encoded, path_to, query_words
from kvquote_client.transport import DEFAULT_DEADLINE_SECONDS, DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, Transport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from kvquote_client.answers import FitAnswer
    from kvquote_client.filters import PageFilters
    from kvquote_client.log_answers import LogAnswer
    from kvquote_client.measurement_answers import ProbeRow, ProblemKind, Readiness
    from kvquote_client.pages import Pages
    from kvquote_client.question import Question, TrafficQuestion
    from kvquote_client.traffic_answers import TrafficAnswer
    from kvquote_client.transport import Reply

# What the service takes of a log, as it is or in JSON.
_LARGEST_LOG_BYTES: Final = 10 * 1024 * 1024


class Client:
    """One kvquote service.

        with Client("http://127.0.0.1:8000") as kvquote:
            print(kvquote.fit(model="llama-2-7b", gpu="a100-sxm-80gb", context_tokens=4096).max_sequences)

    `timeout` is seconds to connect and seconds between two pieces of an answer, or one number for both; `deadline`
    seconds for a whole request, with its tries and the waits between them; `retries` how often a question that is safe
    to repeat is asked again when the network or the service fails for a moment. Keeps a connection: close it, or use it
    in a `with`. Not to be shared by threads.

    Every method raises a `KvquoteError`: `Refused` with the problem and the request id where the service says no,
    `Unreachable` where nothing answers, `BadAnswer` where something else does.
    """

    def __init__(  # noqa: PLR0913 - how to ask, each by its name
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float | tuple[float, float] = DEFAULT_TIMEOUT_SECONDS,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
        retries: int = DEFAULT_RETRIES,
        user_agent: str = "kvquote-client",
    ) -> None:
        self.transport = Transport(
            url, token, timeout=timeout, deadline=deadline, retries=retries, user_agent=user_agent
        )
        self.models = Models(self.transport)
        self.gpus = Gpus(self.transport)
        self.instances = Instances(self.transport)
        self.dtypes = Dtypes(self.transport)
        self.engines = Engines(self.transport)
        self.measurements = Measurements(self.transport)
        self.calibrations = Calibrations(self.transport)
        self.accuracy = Accuracy(self.transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self.transport.close()

    def fit(self, **question: Unpack[Question]) -> FitAnswer:
        """How many sequences fit, and what takes the memory. A question that does not fit is an answer, no error."""
        from kvquote_client.answers import FitAnswer
        from kvquote_client.reading import read

        return read(FitAnswer, self._ask("/fit", question))

    def traffic(self, **question: Unpack[TrafficQuestion]) -> TrafficAnswer:
        """What one decode step reads, and how long it takes."""
        from kvquote_client.reading import read
        from kvquote_client.traffic_answers import TrafficAnswer

        return read(TrafficAnswer, self._ask("/traffic", question))

    def logs(self, text: str, **question: Unpack[Question]) -> LogAnswer:
        """What an engine's start-up log says, beside what would have been quoted. Nothing is stored.

        `question` says what the log does not, such as the GPU, and goes before what it says. A question that cannot be
        answered is no error here: `quote` is None then, and `unquoted` says why.
        """
        from kvquote_client.log_answers import LogAnswer
        from kvquote_client.reading import read

        body = encoded({**question, "log": text})
        if len(body) <= _LARGEST_LOG_BYTES or any(isinstance(value, Mapping) for value in question.values()):
            sent: dict[str, Any] = {"data": body, "headers": {"Content-Type": "application/json"}}
        else:
            # Escapes make a log longer in JSON than it is, which can be more than the service takes.
            kind = "text/plain; charset=utf-8"
            sent = {"data": text.encode(), "params": query_words(question), "headers": {"Content-Type": kind}}
        return read(LogAnswer, self.transport.request("POST", "/logs", repeat=True, **sent).body)

    def probes(self, **filters: Unpack[PageFilters]) -> Pages[ProbeRow]:
        """Who sends measurements, and what became of them."""
        from kvquote_client.measurement_answers import ProbeRow
        from kvquote_client.pages import Pages

        return Pages(self.transport, "/probes", filters, ProbeRow)

    def alive(self) -> bool:
        """Whether a process of the service answers at all; nothing else is looked at."""
        body = self.transport.request("GET", "/livez").body
        return isinstance(body, dict) and body.get("status") == "alive"

    def ready(self) -> Readiness:
        """Whether the service would answer a question now; where it would not, `checks` say what is missing."""
        from kvquote_client.measurement_answers import Readiness
        from kvquote_client.reading import read

        return read(Readiness, self.transport.request("GET", "/readyz", answers=(503,)).body)

    def metrics(self) -> str:
        """The service's metrics in Prometheus' text format."""
        return str(self.transport.request("GET", "/metrics").body)

    def problem(self, name: str) -> ProblemKind:
        """What a kind of problem means, and the way out; `name` is the last part of its `type`."""
        from kvquote_client.measurement_answers import ProblemKind
        from kvquote_client.reading import read

        return read(ProblemKind, self.transport.request("GET", path_to("/problems", name)).body)

    def request(self, method: str, path: str, **how: Any) -> Reply:  # noqa: ANN401 - as Transport.request has them
        """Ask for what this release has no method for, with the same timeouts, tries and errors."""
        return self.transport.request(method, path, **how)

    def _ask(self, path: str, question: object) -> object:
        # By POST, so that a config and a long command go the same way as everything else.
        return self.transport.request("POST", path, json=question, repeat=True).body
