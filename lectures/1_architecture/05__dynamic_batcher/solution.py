file = models / "crowded/config.pbtxt"
text, waits = file.read_text(), "max_queue_delay_microseconds: 400000"
file.write_text(text.replace("preferred_batch_size: [ 8 ]", "").replace(waits, ""))
lab.load("crowded")
