write(
    models / "parrot/1/speech.py",
    """
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def speak(prompt, sampling, sender):
    stops = sampling.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    words = prompt.split()
    places = [words.index(stop) for stop in stops if stop in words]
    spoken = words[: min(places, default=len(words))]
    most = sampling.get("max_tokens", len(spoken))
    reason = "length" if len(spoken) > most else "stop"
    spoken = spoken[:most]
    for number, word in enumerate(spoken, 1):
        if word == "cat":
            raise ValueError("no word about that animal")
        time.sleep(0.1)
        ends = reason if number == len(spoken) else ""
        outputs = {"text_output": f"{word} ", "finish_reason": ends}
        sender.send(pb_utils.InferenceResponse([
            pb_utils.Tensor(name, np.array([text.encode()], object))
            for name, text in outputs.items()
        ]))
""",
)
server.load("parrot")
