"""Serve a file of trees with FIL: write its config, load it, compare the answers.

python serve_forest.py FILE NAME    # xgboost.json, xgboost.ubj or LightGBM's model.txt
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import treelite
import tritonclient.http as http

TYPES = {"xgboost.json": "xgboost_json", "xgboost.ubj": "xgboost_ubj", "model.txt": "lightgbm"}
CONFIG = """backend: "fil"
max_batch_size: 1024
input { name: "input__0" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ %d ] }
dynamic_batching { }
parameters { key: "model_type" value: { string_value: "%s" } }
parameters { key: "output_class" value: { string_value: "true" } }
parameters { key: "predict_proba" value: { string_value: "true" } }
parameters { key: "threshold" value: { string_value: "0.5" } }
"""

file, name = sys.argv[1:]
kind, read = TYPES[Path(file).name], treelite.frontend
trees = (read.load_lightgbm_model if kind == "lightgbm" else read.load_xgboost_model)(file)
rows = np.random.default_rng(0).random((100, trees.num_feature), np.float32)
own = treelite.gtil.predict(trees, rows).reshape(100, -1)  # two classes: one column, of class 1

home = Path(os.environ.get("TRITON_MODELS", "models"), name)
(home / "1").mkdir(parents=True, exist_ok=True)
shutil.copy(file, home / "1")
(home / "config.pbtxt").write_text(CONFIG % (trees.num_feature, max(2, own.shape[1]), kind))
client = http.InferenceServerClient(os.environ.get("TRITON_HTTP", "localhost:8000"))
client.load_model(name)  # the server's option: --model-control-mode=explicit
tensor = http.InferInput("input__0", rows.shape, "FP32").set_data_from_numpy(rows)
served = client.infer(name, [tensor]).as_numpy("output__0")
print(f"{name}: largest difference {abs(served[:, -own.shape[1] :] - own).max():.0e}")
