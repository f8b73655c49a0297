import setup

setup.install(models / "strict/env", setup.wheel(models, "2.0"))
lab.unload("strict")
lab.load("strict")
