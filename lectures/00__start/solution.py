numbers = [1, 2, 3, 4, 5]
rows = {"name": "INPUT", "shape": [5, 1], "datatype": "FP32", "data": numbers}
server.request("POST", "/v2/models/square/infer", json={"inputs": [rows]})
