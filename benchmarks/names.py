"""The models that the benchmarks measure if none is named."""

from __future__ import annotations

FLOAT = (
    "deeplabv3_257_mv_gpu",
    "style_transfer_f16_384",
    "selfie_segmentation",
    "face_detection_front",
    "hand_landmark_lite",
    "pose_landmark_lite",
)
QUANTIZED = (
    "posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant",
    "style_predict_quantized_256",
    "style_transfer_quantized_384",
)
