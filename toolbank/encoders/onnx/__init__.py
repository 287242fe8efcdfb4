"""Encoders as ONNX: run by onnxruntime and tokenizers alone, without torch."""
