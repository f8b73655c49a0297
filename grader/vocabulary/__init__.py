"""The functions and classes with which checks are written and called, for all assignments.

- To write a check: `define` and `hidden` (define.py); the words of require.py, values.py and
  tolerance.py; the exceptions `Failure` and `NotAttempted` (failure.py); `Probe`, which sends
  requests to the server (probe.py).
- To call a check in a notebook: `check` and `hint` (notebook.py).

The checks themselves lie in each assignment's folder, such as solutions/a2__forest/: the public
ones in checks.py, their hidden variants in hidden.py, and what both share with the notebook in
facts.py. Students do not get hidden.py.
"""
