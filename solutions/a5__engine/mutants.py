"""Wrong answers to a5__engine, and right ones in another form.

An edit replaces text in a model file or in a solution cell. Mistakes that do not meet share one.
"""

from __future__ import annotations

from grader.authoring.mutants import NOTHING, Edit, Mutant

ACCELERATED = "models/own_accelerated/config.pbtxt"
IR = "models/own_ir/config.pbtxt"
FAST = "models/own_fast/config.pbtxt"

_BLOCK = "node_block_list=normalization"
_PADDING = 'parameters { key: "ENABLE_BATCH_PADDING" value: { string_value: "YES" } }\n'
_INT8_IR = 'openvino.convert_model("int8.onnx")'
_NETWORK_IR = 'openvino.convert_model("network.onnx")'
_IR_FILE = '"models/own_ir/1/model.xml"'
_ONNX_IR = 'Path("models/own_ir/1/model.onnx").write_bytes(network.file)'
_ONNX = 'default_model_filename: "model.onnx"'
_ENGINES = "The engines are those of your network"
_SLOW = "at least ×2 is asked"

MUTANTS = (
    Mutant(
        "fp16: all of it, as the converter does; ir: no padding",
        (Edit("a5.convert", f", {_BLOCK}", ""), Edit(IR, _PADDING, "")),
        {
            "a5.fp16": "computed in fp16 as a GPU does, differ",
            "a5.ir": "ENABLE_BATCH_PADDING",
            "a5.costs": NOTHING,
        },
        stops="ENABLE_BATCH_PADDING",
    ),
    Mutant(
        "fp16: not converted; accelerated: larger requests than asked",
        (
            Edit("a5.convert", 'content("fp16.onnx")', 'content("network.onnx")'),
            Edit(ACCELERATED, "max_batch_size: 32", "max_batch_size: 64"),
        ),
        {
            "a5.fp16": "holds no number as FLOAT16",
            "a5.engine": "holds no number as FLOAT16",
            "a5.accelerated": "answers a request of 33 pictures",
        },
    ),
    Mutant(
        "fp16: convolutions stay in fp32",
        (Edit("a5.convert", _BLOCK, 'op_block_list=["Conv", "Mul", "ReduceMean", "Div"]'),),
        {
            "a5.fp16": "computes these operators in fp32: conv0",
            "a5.engine": _ENGINES,
        },
    ),
    Mutant(
        "fp16: the square alone overflows; accelerated: the list for GPUs",
        (
            Edit("a5.convert", _BLOCK, "node_block_list=normalization[3:]"),
            Edit(ACCELERATED, "cpu_execution", "gpu_execution"),
        ),
        {
            "a5.fp16": "computed in fp16 as a GPU does, differ",
            "a5.accelerated": "It has a list for GPUs",
            "a5.costs": "hardly less",
        },
    ),
    Mutant(
        "fp16: of another id; costs: the load of one in place of the difference",
        (
            Edit(
                "a5.convert",
                "model = onnx.load",
                "network = own_network('berta')\n"
                'Path("network.onnx").write_bytes(network.file)\nmodel = onnx.load',
            ),
            Edit(
                "a5.convert",
                'fp16 = content("fp16.onnx")',
                'fp16 = content("fp16.onnx")\n'
                'network = own_network(me)\nPath("network.onnx").write_bytes(network.file)',
            ),
            Edit(
                "a5.compute",
                'longer = costs[accelerated]["load"] - costs[plain]["load"]',
                'longer = 9 * costs[accelerated]["load"]',
            ),
        ),
        {
            "a5.fp16": "does not hold conv0.weight",
            "a5.engine": _ENGINES,
            "a5.costs": "but `costs` gives another number",
        },
    ),
    Mutant(
        "int8: the defaults; costs: the slowest are called the fastest",
        (
            Edit("a5.quantize", '"ActivationSymmetric": True', '"ActivationSymmetric": False'),
            Edit("a5.quantize", '"QuantizeBias": False', '"QuantizeBias": True'),
            Edit("a5.compute", "min(costs", "max(costs"),
        ),
        {
            "a5.int8": "has zero points that are not 0",
            "a5.engine": "builds no engine from `int8`",
            "a5.costs": "which has not the smallest",
        },
    ),
    Mutant(
        "int8: unsigned",
        (
            Edit(
                "a5.quantize",
                "activation_type=quantization.QuantType.QInt8",
                "activation_type=quantization.QuantType.QUInt8",
            ),
        ),
        {"a5.int8": "quantizes to UINT8", "a5.engine": "builds no engine from `int8`"},
    ),
    Mutant(
        "int8: every operator that can be; accelerated: the file in fp16",
        (
            Edit("a5.accelerate", "write_bytes(network.file)", "write_bytes(fp16.tobytes())"),
            Edit("a5.quantize", '    op_types_to_quantize=["Conv"],\n', ""),
            Edit("a5.quantize", '        "OpTypesToExcludeOutputQuantization": ["Conv"],\n', ""),
            # its speed may do or not
            Edit("a5.serve_fast", 'fast = deploy("models/own_fast").name', "fast = ..."),
        ),
        {
            "a5.engine": "Quantized constant",
            "a5.accelerated": "differ from your network's",
            "a5.fast": "`model=` has no value yet",
            "a5.bonus": "`model=` has no value yet",
        },
    ),
    Mutant(
        "int8: calibrated with black pictures",
        (
            Edit(
                "a5.quantize",
                "np.split(camera.calibration, 8)",
                "np.split(0 * camera.calibration, 8)",
            ),
        ),
        {
            "a5.int8": "reads another digit than the network in fp32",
            "a5.fast": "reads another digit than the network in fp32",
            "a5.bonus": "reads another digit than the network in fp32",
        },
    ),
    Mutant(
        "int8: the first convolution in fp32",
        (Edit("a5.quantize", "    per_channel=True,\n", '    nodes_to_exclude=["conv0"],\n'),),
        {"a5.int8": "computes these convolutions in fp32: conv0", "a5.engine": _ENGINES},
    ),
    Mutant(
        "int8: the operators replaced",
        (Edit("a5.quantize", "QuantFormat.QDQ", "QuantFormat.QOperator"),),
        {
            "a5.int8": "has 0 operators Conv",
            "a5.engine": "builds no engine from `int8`",
            "a5.fast": NOTHING,
            "a5.bonus": NOTHING,
        },
        why="task 3 takes the files",
        stops="OpConversionFailure",
    ),
    Mutant(
        "fp16: outside, too",
        (Edit("a5.convert", "keep_io_types=True", "keep_io_types=False"),),
        {
            "a5.fp16": "another type than fp32 outside: image (FLOAT16)",
            "a5.engine": "has other inputs than",
        },
    ),
    Mutant(
        "engine: another optimum; accelerated: too small a batch; ir: another model",
        (
            Edit("a5.build", "(1, 8, 32)", "(1, 32, 32)"),
            Edit("a5.convert_ir", 'ir = deploy("models/own_ir").name', "ir = accelerated"),
            Edit(ACCELERATED, "max_batch_size: 32", "max_batch_size: 16"),
        ),
        {
            "a5.engine": "The profile is (1, 32, 32)",
            "a5.accelerated": "max_batch_size is 16",
            "a5.ir": "This task is about models/own_ir",
            "a5.costs": NOTHING,
        },
        stops="batch-size",
    ),
    Mutant(
        "engine: the profile alone; ir: ONNX, and no IR",
        (
            Edit("a5.build", "largest = low", "largest = NOT_ATTEMPTED"),
            Edit("a5.convert_ir", f"openvino.save_model({_NETWORK_IR}, {_IR_FILE})", _ONNX_IR),
            Edit(IR, 'backend: "openvino"', f'backend: "openvino"\n{_ONNX}'),
        ),
        {"a5.engine": "`largest` is not there yet", "a5.ir": "This task is about IR"},
    ),
    Mutant(
        "engine: one too many; costs: invented; ir: another id's network",
        (
            Edit("a5.build", "largest = low", "largest = high"),
            Edit(
                "a5.convert_ir",
                "openvino.save_model(",
                'Path("b.onnx").write_bytes(own_network("berta").file)\nopenvino.save_model(',
            ),
            Edit("a5.convert_ir", '"network.onnx"', '"b.onnx"'),
            Edit("a5.compute", "longer =", 'costs[plain]["full"] *= 100\nlonger ='),
        ),
        {
            "a5.engine": "Wanted is the last batch that fits",
            "a5.ir": "differ from your network's",
            "a5.costs": "By the reported times",
        },
    ),
    Mutant(
        "fast: the network as it was; engine: too small a profile",
        (
            Edit("a5.build", "(1, 8, 32)", "(1, 8, 16)"),
            Edit(
                "a5.serve_fast",
                f'openvino.save_model({_INT8_IR}, "models/own_fast/1/model.xml")',
                'Path("models/own_fast/1/model.onnx").write_bytes(network.file)',
            ),
            Edit(FAST, 'backend: "openvino"', 'platform: "onnxruntime_onnx"'),
            Edit(FAST, _PADDING, ""),
        ),
        {
            "a5.engine": "The profile takes 1 to 16 pictures",
            "a5.fast": _SLOW,
            "a5.bonus": "is asked",
        },
    ),
    Mutant(
        "right: fp16 by types; int8 with the last layer, by percentiles; IR in fp32",
        (
            Edit(
                "a5.convert",
                _BLOCK,
                'op_block_list=["ReduceMean", "Sub", "Mul", "Add", "Sqrt", "Div"]',
            ),
            Edit(
                "a5.quantize",
                'op_types_to_quantize=["Conv"]',
                'op_types_to_quantize=["Conv", "Gemm"]',
            ),
            Edit(
                "a5.quantize",
                "    per_channel=True,\n",
                "    calibrate_method=quantization.CalibrationMethod.Percentile,\n",
            ),
            Edit(
                "a5.convert_ir",
                '"models/own_ir/1/model.xml"',
                '"models/own_ir/1/model.xml", compress_to_fp16=False',
            ),
        ),
        right=True,
    ),
    Mutant(
        "right: four operators in fp32; the profile written out; dynamic batching",
        (
            Edit(
                "a5.build",
                'profile = engines.profile_of({"image": (1, 32, 32)}, (1, 8, 32))',
                'profile = {"image": [[batch, 1, 32, 32] for batch in (1, 8, 32)]}',
            ),
            Edit("a5.convert", _BLOCK, "node_block_list=normalization[2:6]"),
            Edit("a5.build", "largest = low", "largest = np.int64(low)"),
            Edit(
                "a5.compute",
                "max(0, math.ceil(longer / saved))",
                "np.maximum(0, np.ceil(longer / saved))",
            ),
            Edit(FAST, _PADDING, _PADDING + "dynamic_batching { }\n"),
        ),
        right=True,
    ),
    Mutant(
        "right: int8 with its own ranges for outputs, as ONNX in OpenVINO; no load to earn",
        (
            Edit("a5.quantize", '        "OpTypesToExcludeOutputQuantization": ["Conv"],\n', ""),
            Edit("a5.quantize", "    per_channel=True,\n", ""),
            Edit(
                "a5.serve_fast",
                f'openvino.save_model({_INT8_IR}, "models/own_fast/1/model.xml")',
                'Path("models/own_fast/1/model.onnx").write_bytes(int8.tobytes())',
            ),
            Edit(FAST, 'backend: "openvino"', f'backend: "openvino"\n{_ONNX}'),
            # own_plain takes longer to load, as it may on a busy machine
            Edit("a5.compute", "longer =", 'costs[plain]["load"] = 9e4\nlonger ='),
            Edit("a5.compute", "max(0, math.ceil(longer / saved))", "longer // saved"),
        ),
        right=True,
    ),
)
