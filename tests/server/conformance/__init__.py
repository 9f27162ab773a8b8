"""Each behaviour of our ONNX Runtime backend as a small repository and what is asked of it."""
