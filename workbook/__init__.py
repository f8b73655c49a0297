"""The course's package: the laptop server, its backends, and what notebooks and the grader use."""

import os

# gRPC's library prepares itself for each fork of its process. Triton inside a process
# (server/capi.py) forks in several threads at once, to start the processes of Python models. gRPC
# then fails ("Check failed: is_forking != was_forking") or waits for ever. It reads the variable
# when it is imported, which happens in modules of this package.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
