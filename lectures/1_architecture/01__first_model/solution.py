write(
    models / "digits/1/model.py",
    """\
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.load(__file__.replace("model.py", "weights.npy"))
        pb.Logger.log_info("weights read")
        self.answered = 0

    def execute(self, requests):
        self.answered += len(requests)
        pictures = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        scores = [x.reshape(-1, 64) @ self.weights[:64] + self.weights[64] for x in pictures]
        return [pb.InferenceResponse([pb.Tensor("scores", y)]) for y in scores]

    def finalize(self):
        pb.Logger.log_info(f"answered {self.answered} requests")
""",
)
lab.load("digits")
