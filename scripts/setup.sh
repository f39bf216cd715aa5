#!/bin/sh
# Makes .venv: `setup.sh demo` with what the package itself needs, `setup.sh all` with the tools and tests as well. On Debian
# or Ubuntu it installs the system packages that are missing: a software GL driver and the libraries that opencv-python and
# GLFW load; for `all` also software OpenCL, and what the tests run (a virtual screen, an API tracer, an RTSP
# server, PipeWire's daemon, a browser, the libraries of Qt).
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

packages="libegl1 libgl1 libgl1-mesa-dri libgles2
libxcb1 libx11-6 libxcursor1 libxi6 libxinerama1 libxrandr2 libglib2.0-0"
requirement="."
if [ "$1" = all ]; then
    packages="$packages ocl-icd-libopencl1 pocl-opencl-icd xvfb xauth xdotool apitrace
libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-image0 libxcb-render-util0 libxcb-shape0 libxkbcommon-x11-0
libdbus-1-3 libfontconfig1 gir1.2-gst-rtsp-server-1.0 python3-gi
pipewire-bin"
    # Ubuntu's package of that name is a snap, which apt-get does not install.
    if grep -qs '^ID=debian' /etc/os-release; then packages="$packages chromium"; fi
    requirement=".[dev]"
fi

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

if command -v dpkg-query >/dev/null; then
    missing=""
    for package in $packages; do installed "$package" || missing="$missing $package"; done
    "$python" -c "import ensurepip, venv" 2>/dev/null || missing="$missing python3-venv"
    if [ -n "$missing" ]; then
        install="apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends$missing"
        if [ "$(id -u)" = 0 ]; then
            echo "setup: installing the system packages$missing"
            sh -c "$install"
        elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            echo "setup: installing the system packages$missing"
            sudo -n sh -c "$install"
        else
            echo "setup: these packages are missing, and installing them needs root. Run this line, then make again:" >&2
            echo "  sudo sh -c '$install'" >&2
        fi
    fi
else
    echo "setup: not Debian or Ubuntu. Needed beside Python: an EGL and OpenGL driver; for the tests also OpenCL, Xvfb, xdotool, apitrace, gst-rtsp-server with PyGObject, PipeWire." >&2
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
if [ "$1" = all ]; then
    echo "setup: installing framebind with its tools and tests into .venv (1.9 GB, half a minute)"
else
    echo "setup: installing framebind into .venv (400 MB, half a minute to two minutes)"
fi
# Bars are for people. Python compiles a module when it is first imported: compiling all of them takes longer.
quiet=--quiet
[ -t 1 ] && quiet=
if [ "$1" = all ]; then
    # uv installs so many packages five times as fast, and scripts/pythons.py needs it.
    .venv/bin/python -m pip install $quiet --no-compile --disable-pip-version-check 'uv>=0.5'
    .venv/bin/uv pip install $quiet --python .venv/bin/python -e "$requirement"
else
    .venv/bin/python -m pip install $quiet --no-compile --disable-pip-version-check -e "$requirement"
fi
