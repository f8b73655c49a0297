"""Checks: what they are written with, one module per assignment, and what a notebook calls."""
