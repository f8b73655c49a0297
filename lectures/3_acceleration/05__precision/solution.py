import setup

file = models / "hurried/quantize.py"
text = file.read_text()
text = text.replace("iter([black])", "iter(np.split(PICTURES, 25))")
text = text.replace(
    "quantization.quantize_static(",
    "import onnx\n\nLAST = onnx.load(HERE.parent / 'network.onnx').graph.node[-1].name\n"
    "quantization.quantize_static(",
)
text = text.replace("per_channel=True", "per_channel=True, nodes_to_exclude=[LAST]")
file.write_text(text)
setup.quantize(models)
lab.load("hurried")
