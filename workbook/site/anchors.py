"""The anchors of headings, as Jupyter makes them."""


def slug(heading: str) -> str:
    """`Two instances` → `Two-instances`."""
    return heading.strip().replace(" ", "-")
