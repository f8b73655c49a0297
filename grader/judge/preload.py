"""What the program that runs a notebook needs beside the notebook's own imports.

A fork server imports this module (forks_per_assignment.py). Importing it also makes the validator
of notebooks, which takes long the first time.
"""

# ruff: noqa: F401

from __future__ import annotations

import concurrent.futures.thread
import tarfile

import ipykernel.ipkernel
import ipykernel.kernelapp
import IPython.core.completer
import jupyter_client.asynchronous
import matplotlib_inline.backend_inline
import nbclient
import nbformat
import zmq.asyncio

from workbook.server import Triton

from . import kernel_provisioner, notebook_program

nbformat.validate(nbformat.v4.new_notebook())  # type: ignore[no-untyped-call]
