"""The documentation site: `make docs` builds it, with warnings as errors and without a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from pictures import THUMBNAIL, draw_measured, show_variants  # noqa: E402
from site_parts import (  # noqa: E402
    break_names,
    escape_norms,
    skip_foreign,
    visit_math,
    visit_math_block,
)

project = "condgrad"
author = "The condgrad developers"
copyright = "the condgrad developers"
release = version = installed_version("condgrad")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_design",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
default_role = "code"
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_templates",
    "extending/*.py",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
math_number_all = False
math_eqref_format = "({number})"
math_numfig = False

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

# links into other projects come with the network; without one they stay plain text
intersphinx_mapping: dict[str, Any] = {}

sphinx_gallery_conf = {
    "image_scrapers": ("pictures.scrape",),
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    # without torch the gallery is smaller; `make docs` needs no more than the docs extra
    "ignore_pattern": r"__init__\.py"
    if find_spec("torch")
    else r"(adaptation_network|particle_flow)\.py",
    "within_subsection_order": "site_parts.ReadingOrder",
    "download_all_examples": False,
    "remove_config_comments": True,
    "thumbnail_size": THUMBNAIL,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "plot_gallery": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "condgrad"
html_favicon = html_logo = "_static/icon.svg"
FONT = "../experiments/paper/templates/math"
html_static_path = ["_static", f"{FONT}.woff2", f"{FONT}.OFL.txt"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# pages without others below them have nothing to show beside them
ALONE = (
    "start",
    "choosing",
    "cli",
    "scale",
    "data",
    "coming_from",
    "extending",
    "benchmarks",
    "paper",
    "changes",
)
html_sidebars = {page: [] for page in ("index", *ALONE)}
html_theme_options = {
    "logo": {"text": "condgrad"},
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "navigation_with_keys": False,
    # the first page has its cards for that
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_align": "left",
}


def setup(app: Any) -> None:
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_math, None), block_renderers=(visit_math_block, None)
    )
    app.config.html_math_renderer = "mathml"
    app.connect("autodoc-process-docstring", escape_norms)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("builder-inited", draw_measured)
    app.connect("html-page-context", show_variants)
    app.connect("html-page-context", break_names)
