"""Whose memory an address belongs to, by this process's table of mapped memory."""

from pathlib import Path

import numpy as np


def memory(array, tensor):
    """Return "shared" where the first number is in a file of /dev/shm, else "own": texts (2,).

    Args:
        array: of numpy.
        tensor: of torch.
    """
    addresses = (array.ctypes.data, tensor.data_ptr())
    return np.array([_memory(address) for address in addresses], np.object_)


def first_numbers(kept):
    """Return what arrays begin with now: pairs of them to float32 (pairs, 2)."""
    return np.array([[float(array[0]) for array in pair] for pair in kept], np.float32)


def _memory(address):
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(number, 16) for number in line.split()[0].split("-"))
        if first <= address < last:
            return "shared" if "/dev/shm/" in line else "own"
    return "not mapped"
