#!/bin/sh
# Runs a command in a virtual machine whose GPU is virtio-gpu: Mesa exports DMA-BUFs and fences there, which no software
# driver does without a machine. OpenGL runs on this machine's software driver; QEMU emulates the processor, slowly.
#
#     scripts/virtual_gpu.sh .venv/bin/python -m pytest -n0 -p no:cacheprovider -o timeout=600 tests/interop/processes
#
# The machine sees this one's files, and writes to /dev/shm only. Debian: apt-get install qemu-system-x86
# qemu-system-gui xvfb xauth busybox-static kmod cpio. The kernel (70 MB) is downloaded once, to out/virtual_gpu.
set -eu
cd "$(dirname "$0")/.."
folder=$PWD/out/virtual_gpu
[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }

if [ ! -e "$folder/initrd" ]; then
    mkdir -p "$folder/initrd.d/bin" "$folder/initrd.d/modules" "$folder/initrd.d/new"
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1)
    (cd "$folder" && apt-get download "$package" && dpkg-deb --extract "$package"_*.deb kernel)
    version=$(ls "$folder/kernel/lib/modules")
    depmod -b "$folder/kernel" "$version"
    cp "$(command -v busybox)" "$folder/initrd.d/bin/busybox"
    for module in virtio_pci 9p 9pnet_virtio virtio-gpu; do
        modprobe -d "$folder/kernel" -S "$version" --show-depends "$module"
    done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' | while read -r file; do
        cp "$file" "$folder/initrd.d/modules"
        basename "$file" >> "$folder/initrd.d/order"
    done
    cat > "$folder/initrd.d/init" <<'INIT'
#!/bin/busybox sh
busybox mkdir -p /proc /sys /dev
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /order); do busybox insmod "/modules/$module"; done
busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=1048576,cache=loose root /new
busybox mount -t proc proc /new/proc
busybox mount -t sysfs sys /new/sys
busybox mount -t devtmpfs dev /new/dev
busybox mkdir -p /new/dev/shm
busybox mount -t tmpfs shm /new/dev/shm
busybox ip link set lo up
busybox mount -t proc proc /proc
busybox chroot /new /bin/sh "$(busybox sed -n 's/.* command=\([^ ]*\).*/\1/p' /proc/cmdline)"
busybox poweroff -f
INIT
    chmod +x "$folder/initrd.d/init"
    (cd "$folder/initrd.d" && find . | cpio --quiet -o -H newc | gzip -1) > "$folder/initrd.new"
    mv "$folder/initrd.new" "$folder/initrd"
fi

{
    echo "export PATH='$PATH' HOME=/dev/shm TMPDIR=/dev/shm PYTHONDONTWRITEBYTECODE=1"
    echo "cd '$PWD'"
    printf "'%s' " "$@"
    echo
    echo 'echo "exit status $?"'
} > "$folder/command"
xvfb-run -a -s "-screen 0 1280x800x24" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 3G \
    -kernel "$folder"/kernel/boot/vmlinuz-* -initrd "$folder/initrd" -append "console=ttyS0 quiet command=$folder/command" \
    -display gtk,gl=on -device virtio-vga-gl -serial stdio -monitor none -nic none -no-reboot \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap < /dev/null | tr -d '\r' |
    tee "$folder/output"
grep -q '^exit status 0$' "$folder/output"
