"""Run a command, or a whole notebook, where it can reach nothing of this machine."""

from .bubblewrap import Isolation, Limits, Outcome, Running, probe, run, start

__all__ = ["Isolation", "Limits", "Outcome", "Running", "probe", "run", "start"]
