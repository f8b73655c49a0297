file = models / "flexible/config.pbtxt"
text = file.read_text()
for count in (1, 2):
    text += f"""
model_warmup {{
  name: "{count} pictures"
  batch_size: 0
  inputs {{
    key: "image"
    value: {{ data_type: TYPE_FP32 dims: [ {count}, 3, 64, 64 ] random_data: true }}
  }}
}}
"""
file.write_text(text)
lab.load("flexible")
