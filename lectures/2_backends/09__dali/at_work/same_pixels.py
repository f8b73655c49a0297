"""Does a pipeline give the pixels of the training, and what do others do to the verdicts?

python same_pixels.py PIPELINE NETWORK FOLDER    # two models on Triton, a folder of pictures
"""

import os
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc
from PIL import Image


def trained(path):
    """The training's preprocessing: put yours here."""
    picture = Image.open(path).convert("RGB").resize((64, 64), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 127.5 - 1


def ask(model, rows):
    about = client.get_model_metadata(model)
    tensor = grpc.InferInput(about.inputs[0].name, rows.shape, about.inputs[0].datatype)
    tensor.set_data_from_numpy(rows)
    return client.infer(model, [tensor]).as_numpy(about.outputs[0].name)


pipeline, network, folder = sys.argv[1:]
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
paths, apart, changed = sorted(Path(folder).iterdir()), 0.0, []
for first in range(0, len(paths), 32):
    batch = paths[first : first + 32]
    own = np.concatenate([trained(path) for path in batch])
    served = np.concatenate([ask(pipeline, np.fromfile(path, np.uint8)[None]) for path in batch])
    apart = max(apart, abs(served - own).max())
    other = ask(network, served).argmax(1) != ask(network, own).argmax(1)
    changed += [path.name for path, differs in zip(batch, other, strict=True) if differs]
print(f"{pipeline}: {len(paths)} files; a pixel differs by up to {apart:.2f}")
print(f"{len(changed)} verdicts of {network} change: {' '.join(changed[:5])}")
