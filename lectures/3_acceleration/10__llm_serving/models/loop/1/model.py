import json

import numpy as np
import triton_python_backend_utils as pb_utils

# Keys and values: (1, 2 × layers, heads of keys, tokens, size of a head). The one token is masked.
EMPTY = np.zeros((1, 12, 4, 1, 64), np.float32)


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.cache = parameters["cache"]["string_value"] == "yes"

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = [
            pb_utils.get_input_tensor_by_name(request, name) for name in ("ids", "count", "top_p")
        ]
        ids, (count,), (top_p,) = (tensor.as_numpy() for tensor in given)
        text, done, past, random = list(ids), 0, EMPTY, np.random.default_rng(0)
        for _ in range(count):
            scores, present = step(text[done:], past)
            if self.cache:
                past, done = present, len(text)
            text.append(draw(scores, top_p, random))
        new = pb_utils.Tensor("new_ids", np.array(text[len(ids) :], np.int64))
        return pb_utils.InferenceResponse([new])


def step(ids, past):
    """One request to the network: scores of the next token, and keys and values of all so far."""
    mask = np.ones((1, past.shape[3] + len(ids)), np.int64)
    mask[0, 0] = 0
    arrays = {"input_ids": np.array([ids]), "attention_mask": mask, "past": past}
    inputs = [pb_utils.Tensor(name, array) for name, array in arrays.items()]
    names = ["logits", "present"]
    answer = pb_utils.InferenceRequest(
        model_name="step", inputs=inputs, requested_output_names=names
    ).exec()
    if answer.has_error():
        raise pb_utils.TritonModelException(answer.error().message())
    scores, present = (
        pb_utils.get_output_tensor_by_name(answer, name).as_numpy() for name in names
    )
    return scores[0], present


def draw(scores, top_p, random):
    """Draw from the likeliest tokens that together have the probability `top_p`."""
    order = np.argsort(-scores)
    chances = np.exp(scores[order].astype(float) - scores[order[0]])
    chances /= chances.sum()
    some = 1 + np.searchsorted(chances.cumsum(), top_p)
    return int(random.choice(order[:some], p=chances[:some] / chances[:some].sum()))
