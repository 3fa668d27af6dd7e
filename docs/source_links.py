"""A Sphinx extension: from a function's source back to where it is described, whichever name it is described by.

`sphinx.ext.viewcode` takes all that a module holds to be described by one name of the module.  Here some of it is
described by the short name, `latentbits.compare`, and some by its own, `latentbits.reports.comparison.Comparison`;
links to the other kind led nowhere.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

BACK = re.compile(r'(id="([\w.]+)">\s*<a class="viewcode-back" href=")[^"]*(")')


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Have the links of a page of source lead to what Sphinx knows of each name."""
    if not page.startswith("_modules/") or "body" not in context:
        return
    module = page.removeprefix("_modules/").replace("/", ".")
    package = module.partition(".")[0]
    known = app.env.get_domain("py").objects

    def link(found: re.Match[str]) -> str:
        entry = known.get(f"{module}.{found[2]}") or known[f"{package}.{found[2]}"]
        return f"{found[1]}{context['pathto'](entry.docname)}#{entry.node_id}{found[3]}"

    context["body"] = BACK.sub(link, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
