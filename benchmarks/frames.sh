#!/bin/sh
# The frames of docs/performance.md: six models on each API, everything bound, in 16 bits. Further options go to the
# command: benchmarks/frames.sh --json > frames.json; benchmarks/frames.sh --read --compare litert-gpu --json > read.json
exec python -m framebind benchmark deeplabv3_257_mv_gpu style_transfer_f16_384 selfie_segmentation \
    face_detection_front hand_landmark_lite pose_landmark_lite --backend cuda,cl,gl --precision f16 --runs 300 "$@"
