file = models / "language_bls/1/model.py"
before, call, after = file.read_text().partition("            tensors = pb.Inf")
line, rest = (call + after).split("\n", 1)
answer = line.replace("tensors =", "answer =").replace(".output_tensors()", "")
lines = [
    answer,
    "            if answer.has_error():",
    "                return pb.InferenceResponse([], answer.error())",
    "            tensors = answer.output_tensors()",
]
file.write_text(before + "\n".join([*lines, rest]))
lab.load("language_bls")
