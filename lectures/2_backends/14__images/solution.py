command = "python3 compose.py --container-version 24.10 --backend onnxruntime"
command += " --backend python --backend dali --cache local"
(models / "compose.sh").write_text(command)
