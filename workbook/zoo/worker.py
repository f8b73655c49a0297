"""Build one artefact in a process of its own: `python -m workbook.zoo.worker NAME`.

A process each keeps the frameworks apart, gives their memory back, and holds every recipe to one
thread, so that it computes the same whatever the number of cores.
"""

from __future__ import annotations

import os
import sys


def main(name: str) -> None:
    """Build the artefact called `name`; its needs must be there."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    # Where a recipe takes more threads of its own, a waiting one shall not burn its core.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ |= {
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",  # weights come out alike with and without a GPU
        "HF_HUB_OFFLINE": "1",
    }
    from .recipe import make
    from .registry import RECIPES

    make(RECIPES[name], RECIPES)


if __name__ == "__main__":
    main(sys.argv[1])
