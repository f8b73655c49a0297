"""The anchors of headings, as Jupyter and as GitHub make them."""

from __future__ import annotations

import re


def slug(heading: str) -> str:
    """Jupyter's, which the site has: `Two instances` → `Two-instances`."""
    return heading.strip().replace(" ", "-")


def github(heading: str) -> str:
    """GitHub's: `Two "instances"` → `two-instances`. A second heading with the same words gets -1.

    Source: what GitHub shows; letters, digits, `-`, `_` and spaces are kept.
    """
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
