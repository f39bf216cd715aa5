"""Builds the documentation: ``make docs``. The pages are Markdown and read well without being built, too."""

import sys

import framebind

sys.modules["framebind.cuda"] = framebind.cuda  # the pages name it as programs do: its file has another name

project = "framebind"
author = "the framebind authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "framebind"
templates_path: list[str] = []
exclude_patterns: list[str] = []
# Headings can be linked as GitHub links them.
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
