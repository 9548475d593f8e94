"""`/docs`, the API's description to read and to try, and the files that the page loads."""

from flask import Blueprint, Response, abort, redirect, render_template, request

from service.web import assets

SWAGGER_UI = "vendor/swagger-ui-5.35.0"

web = Blueprint("web", __name__, template_folder="templates")


@web.get("/")
def home() -> Response:
    """Whoever opens the bare address is shown what can be asked; relative, so that it holds behind a path prefix."""
    return redirect("docs", Response=Response)  # type: ignore[return-value]  # it makes what it is told to


@web.get("/docs")
def docs() -> Response:
    """The page; what it shows is read from `/openapi.json` by its script."""
    page = render_template("docs.html", swagger_ui=SWAGGER_UI).encode()
    return _tagged(page, "text/html; charset=utf-8", assets.tag(page), assets.REVALIDATE)


@web.get("/static/<path:name>")
def asset(name: str) -> Response:
    """A file that a page loads; 404 for a name that is not one of them."""
    found = assets.served().get(name) or abort(404)
    return _tagged(found.path.read_bytes(), found.content_type, found.tag, found.cache_control)


def _tagged(content: bytes, content_type: str, tag: str, cache_control: str) -> Response:
    response = Response(content, content_type=content_type, headers={"Cache-Control": cache_control})
    response.set_etag(tag)
    response.make_conditional(request)
    return response
