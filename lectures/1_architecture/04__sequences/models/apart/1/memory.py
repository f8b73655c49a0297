"""The memory of the model: the sum of each sequence, kept by slot."""

sums = [0.0] * 8  # one per slot


def add(slot, brought):
    earlier = 0 if brought["START"] else sums[slot]
    sums[slot] = earlier + brought["X"]
    return sums[slot]
