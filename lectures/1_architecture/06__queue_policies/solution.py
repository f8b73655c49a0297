file = models / "flooded/config.pbtxt"
policy = "timeout_action: REJECT default_timeout_microseconds: 200000"
file.write_text(file.read_text().replace("max_queue_size: 2", policy))
lab.load("flooded")
