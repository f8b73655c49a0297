# Pack an environment of conda's for a model. Python is that of Triton's stub: 3.10 in NVIDIA's 24.10.
export PYTHONNOUSERSITE=True
conda create -yn model_env python=3.10 numpy conda-pack
conda run -n model_env pip install -r requirements.txt
conda run -n model_env conda-pack -fo models/python_model/conda_env.tar.gz
