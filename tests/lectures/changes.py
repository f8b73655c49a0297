"""Numbers that a reader may change before running a cell of a lecture again."""

from __future__ import annotations

#: Lecture → (text in a cell, what replaces it).
CHANGES: dict[str, list[tuple[str, str]]] = {
    "00__start": [("numbers = [1, 2, 3]", "numbers = [1, 2, 3, 4]")],
    "01__first_model": [("range(40)", "range(20)")],
    "01__map_of_backends": [('"digits.onnx"', '"numbers.onnx"')],
    "02__inside_the_server": [("pictures[::30]", "pictures[::25]")],
    "02__instances": [("count=40", "count=48")],
    "02__python": [("[0, 1, 7, 2]", "[1, 1, 9, 0]")],
    "03__batching": [("(0.3, 0.6)", "(0.2, 0.6)")],
    "03__python_environments": [("power=1)", "power=2)")],
    "04__sequences": [("default_rng(2)", "default_rng(3)")],
    "04__pytorch": [("(4, 9))", "(4, 7))")],
    "05__dynamic_batcher": [("seconds=0.6", "seconds=0.5")],
    "05__onnxruntime": [("range(45, 61)", "range(44, 60)")],
    "06__queue_policies": [("range(10)", "range(8)")],
    "06__accelerators": [("for _ in range(20)", "for _ in range(30)")],
    "07__cache": [("for _ in range(20)]", "for _ in range(12)]")],
    "07__model_repository_manager": [('"count": 3', '"count": 2')],
    "07__tensorflow": [("Conv2D(32, (3, 3)", "Conv2D(16, (3, 3)")],
    "08__clients": [
        (
            "beside = repeat(ask_anew, lambda: time.sleep(0.05), number=1, repeat=20)",
            "beside = repeat(ask_anew, lambda: time.sleep(0.05), number=1, repeat=16)",
        )
    ],
    "08__fil": [("n_estimators=60", "n_estimators=40")],
    "08__metrics": [("[2] * 9 + [100]", "[2] * 9 + [150]")],
    "09__dali": [("files[:1]", "files[1:2]")],
    "09__wire": [("pictures = digits[:64]", "pictures = digits[:48]")],
    "11__generate": [('"max_tokens": 48', '"max_tokens": 40')],
    "10__tensorrt": [("[:256]", "[:224]")],
    "11__llm_backends": [('"max_model_len": 200', '"max_model_len": 190')],
    "12__ensembles": [("send(model, texts[:16])", "send(model, texts[8:24])")],
    "13__does_it_still_answer_the_same": [(")[:256]", ")[:224]")],
    "12__in_process": [("ThreadPoolExecutor(16)", "ThreadPoolExecutor(12)")],
    "14__images": [("in (99, 7)", "in (90, 7)")],
    "04__compile": [("range(1, 6)", "range(1, 5)")],
    "05__precision": [("np.split(training, 25)", "np.split(training[:160], 20)")],
    "12__fleet": [("(4, 5, 6, 7, 8, 30)", "(4, 5, 6, 8, 30)")],
    "09__sequences_and_streams": [("random(50)", "random(40)")],
    "11__tuning": [("target = 40", "target = 60")],
    "01__point_a": [('blocking("single", image, 3000)', 'blocking("single", image, 2000)')],
    "10__llm_serving": [("np.geomspace(4, 64, 16)", "np.geomspace(4, 56, 16)")],
}
