"""focus_python with a function that says what a config would say."""

import network  # network.py, beside this file
import torch
import triton_python_backend_utils as pb


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "image", "data_type": "TYPE_FP32", "dims": [3, 64, 64]})
        config.add_output({"name": "logits", "data_type": "TYPE_FP32", "dims": [2]})
        config.set_max_batch_size(32)
        return config

    def initialize(self, args):
        version = "{model_repository}/{model_version}".format(**args)
        self.net = network.load(version + "/weights.pth")

    def execute(self, requests):
        x = [torch.from_numpy(pb.get_input_tensor_by_name(r, "image").as_numpy()) for r in requests]
        logits = self.net(torch.cat(x)).split([len(rows) for rows in x])
        return [pb.InferenceResponse([pb.Tensor("logits", y.numpy())]) for y in logits]
