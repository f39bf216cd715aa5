#!/bin/sh
# Makes .venv with the package and its extras in it and, on Debian or Ubuntu, installs the system packages that are missing:
# software GL and OpenCL drivers, the libraries that opencv-python (libgl1 libglib2.0-0 libxcb1) and GLFW load, and what the
# tests run (a virtual screen, an API tracer, the libraries that Qt loads).
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

packages="libegl1 libgl1 libgl1-mesa-dri libgles2 ocl-icd-libopencl1 pocl-opencl-icd
libxcb1 libx11-6 libxcursor1 libxi6 libxinerama1 libxrandr2 xvfb xauth xdotool apitrace
libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-image0 libxcb-render-util0 libxcb-shape0 libxkbcommon-x11-0
libdbus-1-3 libfontconfig1 libglib2.0-0"

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

if command -v dpkg-query >/dev/null; then
    missing=""
    for package in $packages; do installed "$package" || missing="$missing $package"; done
    "$python" -c "import ensurepip, venv" 2>/dev/null || missing="$missing python3-venv"
    if [ -n "$missing" ]; then
        install="apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends$missing"
        if [ "$(id -u)" = 0 ]; then
            sh -c "$install"
        elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            sudo -n sh -c "$install"
        else
            echo "setup: these packages are missing, and installing them needs root. Run this line, then make again:" >&2
            echo "  sudo sh -c '$install'" >&2
        fi
    fi
else
    echo "setup: not Debian or Ubuntu. Needed beside Python: an EGL and OpenGL driver; for the tests also OpenCL, Xvfb, xdotool, apitrace." >&2
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'

# Where type checkers find the package by its name (see pyproject.toml).
mkdir -p .venv/typing && ln -sfn ../.. .venv/typing/framebind
