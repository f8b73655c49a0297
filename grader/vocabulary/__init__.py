"""The checks of the assignments, and what those who write and call checks work with.

- To write a check: `define` and `hidden` (define.py); the words of require.py, values.py and
  tolerance.py; the exceptions `Failure` and `NotAttempted` (failure.py); `Probe`, which sends
  requests to the server (probe.py).
- To call a check in a notebook: `check` and `hint` (notebook.py).
- The checks themselves, for each assignment: the public ones in a2.py, their hidden variants in
  hidden/a2.py, and what both share with the notebook in a2_facts.py. Students do not get hidden/.
"""
