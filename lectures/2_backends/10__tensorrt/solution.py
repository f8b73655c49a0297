from workbook.zoo import engines

home = models / "digits_tensorrt"
profile = engines.profile_of({"image": (1, 8, 8)}, (1, 16, 48))
engines.build(models / "digits.onnx", home / "1/model.plan", profile)
