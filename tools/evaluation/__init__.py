"""Evaluation of models on sets of pictures, as TensorFlow Lite's evaluation tools do it: ImageNet and COCO."""
