"""The checks of the assignments, and the functions for those who write and call checks.

- To write a check: `define`, `hidden` and `require_close` (define.py); the exceptions `Failure` and
  `NotAttempted` (failure.py); `Probe`, which sends requests to the server (probe.py).
- To call a check in a notebook: `check` and `hint` (notebook.py).
- The checks themselves, one module per assignment: the public ones in a2.py, their hidden variants
  in hidden/a2.py. Students do not get hidden/.
"""
