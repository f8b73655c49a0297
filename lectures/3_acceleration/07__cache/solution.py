file = models / "label/2/model.py"
write(file, (models / "label/1/model.py").read_text().replace("spring", "autumn"))
lab.load("label")
