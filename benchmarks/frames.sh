#!/bin/sh
# The figures of docs/performance.md: what a frame of each model takes on both APIs, everything bound, beside LiteRT's
# CPU interpreter and GPU accelerator. Further options go to the command: benchmarks/frames.sh --read --json > read.json
exec python -m framebind benchmark deeplabv3_257_mv_gpu style_transfer_f16_384 selfie_segmentation \
    face_detection_front hand_landmark_lite pose_landmark_lite --backend gl,cl --precision f32,f16 --runs 200 \
    --compare litert-cpu,litert-gpu "$@"
