"""A Hugging Face text classifier: text in, labels out.

The folder `checkpoint` beside this file holds config, tokenizer and weights. A checkpoint of the
Hugging Face hub can take its place unchanged.
"""

import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class BadInput(Exception):
    """A request that cannot be answered; its sender gets the message."""


class TritonPythonModel:
    def initialize(self, args):
        # Imported here: Triton also imports this file for auto_complete_config, before any load,
        # and these imports take seconds.
        # transformers would import both (100 MB, a second) without need.
        sys.modules["sklearn"] = sys.modules["scipy"] = None
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        torch.set_num_threads(1)
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        place = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.tokenizer = AutoTokenizer.from_pretrained(place)
        model = AutoModelForSequenceClassification.from_pretrained(place)
        self.model = model.eval().to(self.device)
        self.inference_mode = torch.inference_mode
        self.labels = [model.config.id2label[i] for i in range(model.config.num_labels)]

    def execute(self, requests):
        """Answer all good requests as one batch; each bad one gets its own error."""
        texts, counts, errors = [], [], []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().ravel()
            try:
                decoded = [decode(text, row) for row, text in enumerate(rows)]
                errors.append(None)
            except BadInput as error:
                decoded = []
                errors.append(str(error))
            texts += decoded
            counts.append(len(decoded))
        probabilities = self.predict(texts) if texts else None
        responses, start = [], 0
        for count, error in zip(counts, errors, strict=True):
            if error:
                failure = pb_utils.TritonError(error, pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], failure))
                continue
            responses.append(self.answer(probabilities[start : start + count]))
            start += count
        return responses

    def predict(self, texts):
        tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with self.inference_mode():
            return self.model(**tokens.to(self.device)).logits.softmax(-1).cpu().numpy()

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


def decode(text, row):
    """Bytes as str; a blank text is refused."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"text {row} of the request is not UTF-8: {error}") from None
    if not decoded.strip():
        raise BadInput(f"text {row} of the request is blank: send at least one word")
    return decoded
