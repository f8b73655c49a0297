"""Build one artefact in a process of its own: `python -m workbook.zoo.worker NAME [background]`.

A separate process keeps the frameworks apart and returns their memory when it ends. It uses one
thread, so that the result does not depend on the number of cores. In the background it runs with a
lower priority than the server and notebooks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


def main(name: str, way: str = "") -> None:
    """Build the artefact called `name`; what it is made from must be there."""
    # Ctrl-C reaches every program of the terminal. The parent process decides whether the build
    # stops too. When the parent ends, the kernel ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if way == "background":
        os.nice(10)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    # If a recipe uses more threads, a waiting thread must not keep its core busy.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ |= {
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    from .recipe import make
    from .registry import RECIPES

    if RECIPES[name].fits is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same weights with and without a GPU
    make(RECIPES[name], RECIPES)


if __name__ == "__main__":
    main(*sys.argv[1:])
