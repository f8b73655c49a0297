file = models / "device/config.pbtxt"
file.write_text(file.read_text().replace("max_batch_size: 16", "max_batch_size: 4"))
lab.load("device")
