home = models / "half"
shutil.copy(home / "1/model.pt", home / "2/model.pt")
config = home / "config.pbtxt"
config.write_text(config.read_text() + "version_policy { all { } }")
lab.load("half")
