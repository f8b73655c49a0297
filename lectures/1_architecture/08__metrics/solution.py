file = models / "emil/config.pbtxt"
file.write_text(file.read_text().replace("count: 1", "count: 8"))
lab.load("emil")
