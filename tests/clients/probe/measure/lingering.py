"""A probe in the middle of an experiment that takes minutes; prints the experiment's process."""

from kvquote_probe.measure.nursery import nursery


def main() -> None:
    with nursery(load=()) as made:
        made.run("tests.clients.probe.measure.drills:linger", {}, lambda text: print(text, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
