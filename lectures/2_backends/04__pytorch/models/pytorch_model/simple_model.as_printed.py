"""The backend slides' program: forward stands at the left margin."""

import torch
import torch.nn as nn  # noqa: PLR0402


class SimpleModel(nn.Module):
    def __init__(self):
        super(SimpleModel, self).__init__()  # noqa: UP008
        self.fc = nn.Linear(5, 1)


def forward(self, x):
    return torch.sigmoid(self.fc(x))


model = SimpleModel()
scripted_model = torch.jit.script(model)
