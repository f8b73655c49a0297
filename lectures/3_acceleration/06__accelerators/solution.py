file = models / "night/config.pbtxt"
write(file, file.read_text().replace("gpu_execution", "cpu_execution"))
shutil.copy(models / "compiled/1/model.onnx", models / "night/1/model.onnx")
lab.load("night")
