"""The files and the marks of a class.

- intake.py, unpack_submission.py: take submissions from the inbox
- autograde.py: grade them in parallel
- gradebook.py, preprocessors.py: write the results into nbgrader's gradebook
- export.py: write the marks as tables for other systems
- classroom.py: the paths of all these files, and the stored results
"""
