file = models / "front/1/dali.py"
text = file.read_text().replace("types.BGR", "types.RGB").replace(", antialias=False", "")
text = text.replace("mean=[123.675, 116.28, 103.53]", "mean=[127.5] * 3")
file.write_text(text.replace("std=[58.395, 57.12, 57.375]", "std=[127.5] * 3"))
lab.load("front")
