file = models / "careful/config.pbtxt"
file.write_text(file.read_text() + "response_cache { enable: true }")
lab.load("careful")
