"""Sphinx's settings for the course's site (workbook/site/sphinx_site.py copies them)."""

project = "Triton Workbook"
author = ""
copyright = ""
extensions = ["myst_nb"]
exclude_patterns = ["_build", "_doctrees"]

html_theme = "sphinx_book_theme"
html_title = "Triton Workbook"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "home_page_in_toc": False,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "extra_footer": "",
    "navbar_persistent": [],  # search is in the sidebar
}

nb_execution_mode = "off"  # the notebooks were executed before
nb_merge_streams = True
myst_heading_anchors = 4
#: The anchors that Jupyter makes of headings, so that the notebooks' links hold on the site too.
myst_heading_slug_func = "workbook.site.anchors.slug"
suppress_warnings = ["mystnb.unknown_mime_type", "misc.highlighting_failure"]
