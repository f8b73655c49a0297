import json

file = models / "engine/1/model.json"
arguments = json.loads(file.read_text())
file.write_text(json.dumps({**arguments, "max_num_batched_tokens": 64, "max_num_seqs": 8}))
lab.load("engine")
