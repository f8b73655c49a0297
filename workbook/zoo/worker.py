"""Build one artefact in a process of its own: `python -m workbook.zoo.worker NAME [background]`.

A process of its own keeps the frameworks apart and gives their memory back. It takes one thread, so
that it computes the same whatever the number of cores. In the background it gives way to the server
and to notebooks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


def main(name: str, way: str = "") -> None:
    """Build the artefact called `name`; what it is made from must be there."""
    # Ctrl-C reaches every program of the terminal. The one that started this process decides
    # whether it means the build too; when that one ends, this one is ended by the kernel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if way == "background":
        os.nice(10)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    # Where a recipe takes more threads of its own, a waiting one shall not burn its core.
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
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # weights come out alike with and without a GPU
    make(RECIPES[name], RECIPES)


if __name__ == "__main__":
    main(*sys.argv[1:])
