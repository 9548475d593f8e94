"""Responses that say all there is to say themselves."""

from typing import TYPE_CHECKING

from flask import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
    from werkzeug.datastructures import Headers


class CompleteResponse(Response):
    """A response that is made with every header it needs, its body's length and type among them.

    werkzeug looks through the headers of each response for addresses to make absolute and for what is missing, and
    copies them to do so. Nothing is to be found in these.
    """

    default_mimetype = None
    automatically_set_content_length = False

    def get_wsgi_headers(self, environ: "WSGIEnvironment") -> "Headers":  # noqa: ARG002  # werkzeug's own signature
        """The headers as they are."""
        return self.headers
