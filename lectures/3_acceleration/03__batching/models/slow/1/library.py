import time

import numpy as np


def double(x):
    """Twice each row of x, and beside it how many rows this call had: (n, 1) → (n, 2)."""
    time.sleep(0.05)
    return np.concatenate([2 * x, np.full_like(x, len(x))], axis=1)
