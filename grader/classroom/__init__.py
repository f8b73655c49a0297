"""A class: submissions come in, are graded side by side, and go into nbgrader's gradebook."""
