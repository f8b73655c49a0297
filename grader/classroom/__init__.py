"""The files and the marks of a class.

Submissions are taken from the inbox (intake.py,
unpack_submission.py), graded in parallel (autograde.py),
written into nbgrader's gradebook (gradebook.py, preprocessors.py), and exported as tables for other
systems (export.py). classroom.py knows where everything lies.
"""
