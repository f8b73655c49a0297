for name, old, new in (("ir", "platform", "openvino"), ("trees", "platform", "fil")):
    file = models / name / "config.pbtxt"
    lines = file.read_text().splitlines()
    lines = [line for line in lines if not line.startswith(old)]
    file.write_text("\n".join([f'backend: "{new}"', *lines]))
    lab.load(name)
