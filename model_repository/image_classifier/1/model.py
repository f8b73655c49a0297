"""A Hugging Face image classifier: image files in, labels out.

The folder `checkpoint` beside this file holds config, preprocessor and weights. A checkpoint of
the Hugging Face hub can take its place unchanged.
"""

import base64
import binascii
import contextlib
import io
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image


class BadInput(Exception):
    """A request that cannot be answered; its sender gets the message."""


class TritonPythonModel:
    def initialize(self, args):
        # Imported here: Triton also imports this file for auto_complete_config, before any load,
        # and these imports take seconds.
        # transformers would import both (100 MB, a second) without need.
        sys.modules["sklearn"] = sys.modules["scipy"] = None
        import torch
        from transformers import AutoImageProcessor, AutoModelForImageClassification

        torch.set_num_threads(1)
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        place = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.processor = AutoImageProcessor.from_pretrained(place)
        model = AutoModelForImageClassification.from_pretrained(place)
        self.model = model.eval().to(self.device)
        self.inference_mode = torch.inference_mode
        self.labels = [model.config.id2label[i] for i in range(model.config.num_labels)]

    def execute(self, requests):
        """Answer all good requests as one batch; each bad one gets its own error."""
        images, counts, errors = [], [], []
        for request in requests:
            files = pb_utils.get_input_tensor_by_name(request, "image").as_numpy().ravel()
            try:
                opened = [open_image(file, row) for row, file in enumerate(files)]
                errors.append(None)
            except BadInput as error:
                opened = []
                errors.append(str(error))
            images += opened
            counts.append(len(opened))
        probabilities = self.predict(images) if images else None
        responses, start = [], 0
        for count, error in zip(counts, errors, strict=True):
            if error:
                failure = pb_utils.TritonError(error, pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], failure))
                continue
            responses.append(self.answer(probabilities[start : start + count]))
            start += count
        return responses

    def predict(self, images):
        pixels = self.processor(images, return_tensors="pt")["pixel_values"].to(self.device)
        with self.inference_mode():
            return self.model(pixels).logits.softmax(-1).cpu().numpy()

    def answer(self, probabilities):
        best = probabilities.argmax(1)
        labels = np.array([[self.labels[i].encode()] for i in best], dtype=object)
        score = np.take_along_axis(probabilities, best[:, None], 1)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("label", labels),
                pb_utils.Tensor("score", score),
                pb_utils.Tensor("probabilities", probabilities),
            ]
        )


def open_image(file, row):
    """Bytes of an image file, or their base64, as a Pillow image in RGB."""
    with contextlib.suppress(binascii.Error):  # it is not base64, but the file's bytes
        file = base64.b64decode(file, validate=True)
    try:
        return Image.open(io.BytesIO(file)).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise BadInput(
            f"image {row} of the request is not an image that Pillow can read: {error}. "
            "Send the bytes of a PNG or JPEG file, or their base64."
        ) from None
