"""One HTML file: the template, the style, the scripts as one, the numbers; and a policy that lets it load nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import posixpath
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentbits.core.atomic import write_atomically
from latentbits.core.version import __version__
from latentbits.explorer.content import Content
from latentbits.explorer.meanings import name_of
from latentbits.explorer.payload import payload_of
from latentbits.reports.render import shown_under_titles, to_html

if TYPE_CHECKING:
    import jinja2

__all__ = ["render_page", "write_page"]

HERE = files("latentbits.explorer")
FIRST = "main.js"
IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[\w./-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?function|const|class|let)", re.MULTILINE)


def write_page(content: Content, path: str | os.PathLike[str]) -> Path:
    """Write the page; no half of it is ever there."""
    text = render_page(content)
    with write_atomically(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a name that is no text must not cost the page
    return Path(path)


def render_page(content: Content) -> str:
    """Write the page as text."""
    head, arrays = payload_of(content)
    script, style = joined_scripts(), (HERE / "style.css").read_text("utf-8")
    # Only this script and this style run; nothing is fetched, sent or framed.  The page's own downloads are blobs.
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return _template().render(
        content=content,
        policy=policy,
        script=script,
        style=style,
        data=_inert(head),
        arrays=arrays.texts,
        version=__version__,
    )


@cache
def joined_scripts() -> str:
    """Join all modules as one, each after those it imports: imports are dropped, and exported names are just names."""
    done: dict[str, str] = {}

    def take(name: str) -> None:
        if name in done:
            return
        text = (HERE / "js" / name).read_text("utf-8")
        done[name] = ""  # being taken: a circle ends here
        for other in IMPORT.findall(text):
            take(posixpath.normpath(posixpath.join(posixpath.dirname(name), other)))
        done[name] = EXPORT.sub("", IMPORT.sub("", text))
        order.append(name)

    order: list[str] = []
    take(FIRST)
    return "\n" + "\n".join(done[name] for name in order)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _inert(value: Any) -> str:
    """Write JSON that no HTML parser takes for a tag or a comment, whatever names it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template() -> jinja2.Template:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["goes_with"] = name_of
    environment.filters["as_tables"] = lambda reports: Markup("".join(map(to_html, shown_under_titles(reports))))
    return environment.from_string((HERE / "template.html").read_text("utf-8"))
