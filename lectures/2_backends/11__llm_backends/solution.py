import json

file = models / "assistant/config.pbtxt"
report = 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }'
file.write_text(file.read_text().replace("max_batch_size: 4", report))
file = models / "assistant/1/model.json"
arguments = json.loads(file.read_text())
del arguments["max_num_sequences"], arguments["disable_log_stats"]
file.write_text(json.dumps({**arguments, "max_model_len": 128, "max_num_seqs": 4}))
lab.load("assistant")
