file = models / "yours/config.pbtxt"
text = file.read_text()
text = text.replace('input { name: "before" data_type: TYPE_FP32 dims: [ 1 ] }\n', "")
text = text.replace('output { name: "after" data_type: TYPE_FP32 dims: [ 1 ] }\n', "")
text += """
sequence_batching {
  oldest { max_candidate_sequences: 4 }
  state {
    input_name: "before"
    output_name: "after"
    data_type: TYPE_FP32
    dims: [ 1 ]
    initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }
  }
}
"""
file.write_text(text)
lab.load("yours")
