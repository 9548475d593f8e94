"""A page's HTML as what it loads, links and holds inside, for the tests to look at."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

ADDRESSES = ("src", "href", "action", "data-description")


@dataclass
class Page(HTMLParser):
    """`addresses` of every element; `inline` lists what a strict policy would not let run."""

    addresses: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.addresses += [given[name] for name in ADDRESSES if name in given]
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        if tag == "script" or given.get("rel") == "stylesheet":
            self.loaded += [given.get("src", given.get("href", ""))]


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    return page
