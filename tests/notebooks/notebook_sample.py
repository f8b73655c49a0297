"""A small assignment for tests, and what a student does with it."""

from __future__ import annotations

import json
from typing import Any

from workbook.assignments import Assignment

SOURCE = """\
# ---
# title: A sample
# minutes: 5
# modules: [words]
# ---

# %% [markdown]
# # A sample

# %% kind="given" id="a9.setup"
import math


def check(id, **values):
    return None


# %% [markdown]
# ## Task 1

# %% kind="solution" id="a9.root"
x = 16
### BEGIN SOLUTION
### STUB root = ...
root = math.sqrt(x)
### END SOLUTION

# %% kind="check" id="a9.root_is_right" points=60
check("a9.root_is_right", root=root)

# %% kind="solution" id="a9.double"
def double(number):
    ### BEGIN SOLUTION
    ### STUB return ...
    return 2 * number
    ### END SOLUTION


# %% [markdown]
# Try it here.

# %% kind="check" id="a9.doubled" points=30
check("a9.doubled", four=double(2))

# %% [markdown] kind="written" id="a9.why" points=10
# **Why** is a root not a square?
#
# ### BEGIN SOLUTION
# Because it is the other way round.
# ### END SOLUTION
"""
CHECKS = """
from grader.vocabulary import define as defining
from grader.vocabulary.define import define

@define("a9.root_is_right", hints=("One.",))
def root_is_right(server, root):
    pass

@defining.define("{id}")
def doubled(server, values):
    define("a9.not_a_constant" + "")
"""
CONFIG = 'backend: "fil"\nmax_batch_size: 8\n'


def save(assignment: Assignment, notebook: dict[str, Any]) -> None:
    """Save the notebook as JupyterLab does for a student."""
    assignment.release.write_text(json.dumps(notebook))


def tagged(notebook: dict[str, Any], id: str) -> dict[str, Any]:
    """The cell with this id (dots) of a notebook."""
    return next(
        cell
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == id.replace(".", "-")
    )
