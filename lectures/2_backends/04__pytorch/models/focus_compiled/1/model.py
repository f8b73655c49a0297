"""The network of this lecture. Pieces of photos, pixels in -1..1, to the logits blurred, sharp."""

from torch import nn


class Photo(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for before, after in ((3, 32), (32, 64), (64, 96), (96, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features, self.head = nn.Sequential(*layers), nn.Linear(128, 2)

    def forward(self, image):
        return self.head(self.features(image).mean((2, 3)))
