"""The course's site: every lecture as a page, with what it shows when it runs.

    from workbook import site

    site.build(site.executed.everything(), Path(".workbook/site"))      # then open index.html

`workbook site` runs the lectures that were not run since they were changed (executed.py), turns
them into pages (pages.py: answers of predictions and solutions of tasks behind folds), and has
Sphinx make HTML of them, with search, a dark theme, and previous and next (building.py).
"""

from . import executed
from .sphinx_site import build

__all__ = ["build", "executed"]
