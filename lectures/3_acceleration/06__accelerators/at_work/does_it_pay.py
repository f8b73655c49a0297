"""Does OpenVINO pay as accelerator? python does_it_pay.py MODEL.onnx INPUT BATCH

INPUT is an .npy file with rows for the first input. Needs onnxruntime-ep-openvino, and an Intel
processor. One thread, in fp32.
"""

import json
import sys
import time

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_openvino as plugin

file, rows = sys.argv[1], np.load(sys.argv[2])[: int(sys.argv[3])]
ort.register_execution_provider_library("at_work", plugin.get_library_path())
devices = [d for d in ort.get_ep_devices() if d.ep_metadata.get("ov_device") == "CPU"][:1]
if not devices:
    sys.exit("The plug-in offers nothing for this processor: compare two models on a server.")
settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}
sessions, opening = [], []
for accelerator in (False, True):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if accelerator:
        options.add_provider_for_devices(devices, {"load_config": json.dumps({"CPU": settings})})
    began = time.perf_counter()
    sessions.append(ort.InferenceSession(file, options))
    opening.append(1000 * (time.perf_counter() - began))
for part in sessions[1].get_provider_graph_assignment_info():
    print(f"{part.ep_name}: {len(part.get_nodes())} operators")
name, times = sessions[0].get_inputs()[0].name, ([], [])
expected, answer = (session.run(None, {name: rows})[0] for session in sessions)
print(f"the first output differs by {abs(answer - expected).max():.0e} at most")
for _ in range(100):  # in turns
    for session, found in zip(sessions, times):
        began = time.perf_counter()
        session.run(None, {name: rows})
        found.append(1000 * (time.perf_counter() - began))
plain, accelerated = (min(found) for found in times)
print(f"without {plain:.2f} ms, with {accelerated:.2f} ms: ×{plain / accelerated:.2f}")
cost, saved = opening[1] - opening[0], plain - accelerated
print(f"its load is earned after {cost / saved:,.0f} requests" if saved > 0 else "it saves nothing")
