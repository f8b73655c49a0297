"""The network of this lecture, and a function that loads its weights."""

import torch
from torch import nn


class PhotoCNN(nn.Module):
    """Pieces of photos (n, 3, 64, 64), float32 in -1..1, to logits (n, 2)."""

    def __init__(self):
        super().__init__()
        layers = []
        for before, after in ((3, 32), (32, 64), (64, 96), (96, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(128, 2)

    def forward(self, image):
        return self.head(self.features(image).mean((2, 3)))


def load(path):
    """The network with its weights."""
    torch.set_num_threads(1)
    net = PhotoCNN().eval().requires_grad_(False)
    net.load_state_dict(torch.load(path, weights_only=True))
    return net
