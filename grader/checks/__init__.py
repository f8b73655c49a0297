"""Checks: what an author writes them with, and one module per assignment.

- For an author of checks: `define`, `hidden` and `require_close` (define.py), `Failure` and
  `NotAttempted` (failure.py), `Probe`, which asks the server (probe.py).
- For a notebook: `check` and `hint` (notebook.py).
- An assignment's public checks: a2.py. Their hidden variants: hidden/a2.py, which no student gets.
"""
