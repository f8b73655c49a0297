write(
    server.folder / "bridge.py",
    """
import numpy as np


def bridge(inside, inbox, outbox):
    messages = list(iter(inbox.get, None))
    for first in range(0, len(messages), 64):
        numbers, pictures = zip(*messages[first : first + 64])
        logits = inside.infer("digits_onnx", {"image": np.stack(pictures)})["logits"]
        for number, digit in zip(numbers, logits.argmax(axis=1)):
            outbox.put((number, int(digit)))
""",
)
