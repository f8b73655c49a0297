config = models / "apart/config.pbtxt"
corrid = """sequence_batching {
  control_input {
    name: "CORRID"
    control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }
  }"""
config.write_text(config.read_text().replace("sequence_batching {", corrid))
write(
    models / "apart/1/memory.py",
    """
sums = {}  # one per sequence


def add(slot, brought):
    sequence = int(brought["CORRID"])
    earlier = 0 if brought["START"] else sums[sequence]
    sums[sequence] = earlier + brought["X"]
    return sums[sequence]
""",
)
lab.load("apart")
