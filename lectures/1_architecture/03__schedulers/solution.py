file = models / "single/config.pbtxt"
file.write_text(file.read_text().replace("count: 1", "count: 3"))
lab.load("single")
