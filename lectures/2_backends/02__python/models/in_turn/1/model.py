"""Asks two models one after the other."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.ask(request) for request in requests]

    def ask(self, request):
        given = {"inputs": request.inputs(), "requested_output_names": ["Y"]}
        asks = [pb_utils.InferenceRequest(model_name=m, **given) for m in ("first", "second")]
        answers = [ask.exec() for ask in asks]
        return pb_utils.InferenceResponse(answers[0].output_tensors())
