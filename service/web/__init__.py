"""Pages for people. They ask nothing of another host: what they load lies in `static/`."""
