file = models / "scaled/config.pbtxt"
file.write_text(file.read_text().replace('"picture"', '"image"'))
lab.load("scaled")
