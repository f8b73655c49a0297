"""The course's site: every lecture as a page, with what it shows when it runs.

    from workbook import site

    site.build(site.executed.everything(), Path(".workbook/site"))      # then open index.html

`workbook site` runs the lectures that were changed since their last run (executed.py). It turns
them into pages, in which answers of predictions and solutions of tasks are folded (pages.py). The
pages of `docs/` come with them (documents.py). Then Sphinx makes HTML of all, with search, a dark
theme, and links to the previous and the next page (sphinx_site.py). `workbook slides` makes
slides of the same copies (slides.py).
"""

from . import executed, slides
from .sphinx_site import build

__all__ = ["build", "executed", "slides"]
