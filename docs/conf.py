"""Sphinx configuration; `make docs` builds with warnings as errors and needs no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from latentbits import __version__
from latentbits.cli.fit import FAMILY
from latentbits.cli.main import cli
from latentbits.estimators.families import families

sys.path.insert(0, str(Path(__file__).parent))
import causes
import evidence_page
import league_page
import live
import paper_pages

project = "latentbits"
author = "The latentbits developers"
copyright = "2026, The latentbits developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "source_links",
]
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py", "auto_examples/**/*.md5"]
templates_path = ["_templates"]
default_role = "code"  # docstrings put names into single backticks
smartquotes_action = "qe"  # two hyphens begin an option, and are no dash

# --- API reference ---
autosummary_generate = True
autosummary_context = {"of_text": dir(str)}  # methods that an enumeration of texts has from there
autodoc_typehints = "none"  # numpydoc's sections have the types, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists its methods
numpydoc_class_members_toctree = False

# --- Markdown ---
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3

# --- gallery ---
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "parallel": 2,  # processes
    "write_computation_times": False,  # tables of seconds, drawn by scripts from other hosts
    "min_reported_time": 1_000,
    "image_scrapers": ("matplotlib",),
}

# --- HTML ---
html_theme = "pydata_sphinx_theme"
html_title = "latentbits"
html_static_path = ["_static"]
html_css_files = ["latentbits.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars: dict[str, list[str]] = {
    page: [] for page in ("index", "live", "live/*", "evidence", "league")
}  # they need the width


def _write_help() -> None:
    """The --help of every command, as the command-line page includes it."""
    folder = Path(__file__).parent / "api" / "generated" / "cli"
    folder.mkdir(parents=True, exist_ok=True)
    whole = click.Context(cli, info_name="latentbits", terminal_width=100, **cli.context_settings)
    (folder / "latentbits.txt").write_text(cli.get_help(whole) + "\n", "utf-8")
    for name, command in cli.commands.items():
        context = click.Context(command, parent=whole, info_name=name, terminal_width=100, show_default=True)
        (folder / f"{name}.txt").write_text(command.get_help(context) + "\n", "utf-8")
    fit = cli.commands["fit"]
    for family in families():  # each has other options
        context = click.Context(fit, parent=whole, info_name="fit", terminal_width=100, show_default=True)
        context.meta[FAMILY] = family
        (folder / f"fit-{family.name}.txt").write_text(fit.get_help(context) + "\n", "utf-8")


def _write_datasets() -> None:
    """The registry of public sets as a table."""
    from latentbits.data.fetch import datasets

    head = ["| name | rows × columns | access | what it is |", "|---|---|---|---|"]
    rows = [
        f"| `{info.name}` | {' × '.join(map(str, info.shape))} | {info.access} | {info.description} |"
        for info in datasets()
    ]
    path = Path(__file__).parent / "api" / "generated" / "datasets.txt"
    path.write_text("\n".join([*head, *rows, ""]), "utf-8")


_write_help()
_write_datasets()
paper_pages.write(Path(__file__).parent / "papers")
league_page.write(Path(__file__).parent / "league.md")
evidence_page.write(Path(__file__).parent / "evidence.md")
causes.write(Path(__file__).parent / "_static" / "causes")
html_extra_path = [str(live.write(Path(__file__).parent / "live", Path(__file__).parent / "_build" / "live"))]
