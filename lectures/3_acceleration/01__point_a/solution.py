file = models / "single/config.pbtxt"
file.write_text(
    file.read_text()
    + """
model_warmup {
  name: "one picture"
  batch_size: 1
  count: 5
  inputs {
    key: "image"
    value: { data_type: TYPE_FP32 dims: [ 3, 64, 64 ] random_data: true }
  }
}
"""
)
lab.load("single")
