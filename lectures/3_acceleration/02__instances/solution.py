file = models / "nightly/config.pbtxt"
text = file.read_text()
if "rate_limiter" not in text:
    limiter = '  rate_limiter { resources { name: "core" count: 2 } }\n}'
    file.write_text(text.rstrip().removesuffix("}") + limiter + "\n")
lab.load("nightly")
