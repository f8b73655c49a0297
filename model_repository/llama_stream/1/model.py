"""A decoupled language model: each token is sent as soon as it is made.

The whole prompt goes through the network once, then one new token per step; the keys and values of
all earlier tokens are kept.
"""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(str(Path(__file__).parent))
from sampling import Answer, BadRequest, Sampling, check_prompt, text_of

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
#: How many requests are answered at the same time; others wait.
AT_ONCE = 8


class TritonPythonModel:
    def initialize(self, args):
        # Waiting threads sleep, so that other programs can use their cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        sys.modules["sklearn"] = None  # transformers would import it (70 MB) without need
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        groups = json.loads(args["model_config"]).get("instance_group", [])
        instances = sum(group.get("count", 1) for group in groups) or 1
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // instances))
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        place = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.tokenizer = AutoTokenizer.from_pretrained(place)
        self.model = AutoModelForCausalLM.from_pretrained(place).eval().to(self.device)
        self.context = self.model.config.max_position_embeddings
        self.torch = torch
        self.pool = ThreadPoolExecutor(AT_ONCE)
        # One step at a time: two steps would compete for the same cores.
        self.step = threading.Lock()

    def execute(self, requests):
        for request in requests:
            self.pool.submit(self.attend, request)

    def finalize(self):
        self.pool.shutdown()

    def attend(self, request):
        """Answer one request; the final flag is always sent, or the client would wait for ever."""
        sender = request.get_response_sender()
        try:
            self.answer(request, sender)
        except BadRequest as error:
            fail(sender, str(error), pb_utils.TritonError.INVALID_ARG)
        except Exception as error:
            fail(
                sender, f"the answer ended with an error: {error!r}", pb_utils.TritonError.INTERNAL
            )
        finally:
            sender.send(flags=FINAL)

    def answer(self, request, sender):
        sampling = Sampling(text_of(request, "sampling_parameters", pb_utils))
        prompt = self.tokenizer(text_of(request, "text_input", pb_utils)).input_ids
        check_prompt(prompt, self.context)
        given = pb_utils.get_input_tensor_by_name(request, "stream")
        stream = given is not None and bool(given.as_numpy().ravel()[0])
        room = self.context - len(prompt)
        answer = Answer(sampling, self.decode, self.tokenizer.eos_token_id, room)
        tokens, past, sent = prompt, None, 0
        while not answer.reason:
            if sender.is_cancelled():
                pb_utils.Logger.log_info(f"cancelled after {len(answer.tokens)} tokens")
                return fail(sender, "the request was cancelled", pb_utils.TritonError.CANCELLED)
            logits, past = self.forward(tokens, past)
            token, _ = sampling.choose(logits)
            tokens, text = [token], answer.add(token)
            if stream:
                send(sender, text, answer.tokens[sent:], answer.reason)
                sent = len(answer.tokens)
        if not stream:
            send(sender, answer.text, answer.tokens, answer.reason)
        return None

    def forward(self, tokens, past):
        """One step: the scores of the next token, and the keys and values so far."""
        with self.step, self.torch.inference_mode():
            ids = self.torch.tensor([tokens], device=self.device)
            output = self.model(ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            return output.logits[0, -1].float().cpu().numpy(), output.past_key_values

    def decode(self, tokens):
        return self.tokenizer.decode(tokens, skip_special_tokens=True)


def send(sender, text, tokens, reason):
    outputs = [
        pb_utils.Tensor("text_output", np.array([text.encode()], dtype=object)),
        pb_utils.Tensor("token_ids", np.array(tokens, np.int32)),
        pb_utils.Tensor("finish_reason", np.array([reason.encode()], dtype=object)),
    ]
    sender.send(pb_utils.InferenceResponse(outputs))


def fail(sender, message, code):
    sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError(message, code)))
