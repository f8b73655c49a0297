"""Grade one submission: run its notebook, then run the checks on its models from outside of it."""
