// Times the convolutions of the quantized models by tensor cores, with activations and weights in halves and in 8 bits:
//
//     nvcc -O3 -arch=native -std=c++17 benchmarks/int8/units.cu -o units && ./units
//     nvcc -O3 -arch=native -std=c++17 -DLARGER=1 benchmarks/int8/units.cu -o units && ./units
//
// LARGER is 1 for resnet18 at 224x224, 2 for yolov8n at 640x640 and 3 for a U-Net at 512x512, whose convolutions have more
// pixels and channels than those of the models that are measured without it.
//
// The kernel is kernels/ops/convolution/matrix_conv.kern, with a fragment of eight channels in place of four for 8 bits:
// as many bytes per load, and mma.sync.m16n8k32 of integers in place of m16n8k16 of halves, so half as many of both.
// Each line is a layer: the fastest of four tiles with halves, and with 8 bits, in microseconds per launch of a graph of
// 48 launches (medians of 15 graphs), and how many results differ between the two. Activations, weights and results are
// whole numbers, so none should. "nothing" is a kernel that does nothing. docs/internals/tensor-cores.md has the results.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <vector>

constexpr int GROUP = 256, LAUNCHES = 48, RUNS = 15;

static void check(cudaError_t error) {
  if (error != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(error)); exit(1); }
}

__device__ void multiply(float4& d, uint2 p, uint2 q, uint2 w) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
      : "r"(p.x), "r"(q.x), "r"(p.y), "r"(q.y), "r"(w.x), "r"(w.y));
}
__device__ void multiply(int4& d, uint2 p, uint2 q, uint2 w) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d.x), "+r"(d.y), "+r"(d.z), "+r"(d.w)
      : "r"(p.x), "r"(q.x), "r"(p.y), "r"(q.y), "r"(w.x), "r"(w.y));
}
__device__ float step(float v, float scale) { return fminf(fmaxf(rintf(v * scale), -128.0f), 127.0f); }
__device__ void store(uint2* dst, int i, float4 v) {
  __half2 low = __floats2half2_rn(v.x, v.y), high = __floats2half2_rn(v.z, v.w);
  dst[i] = make_uint2(*(uint32_t*)&low, *(uint32_t*)&high);
}
__device__ void store(char4* dst, int i, float4 v) { dst[i] = make_char4(v.x, v.y, v.z, v.w); }
__device__ float4 load(const uint2* src, int i) {
  uint2 words = src[i];
  float2 low = __half22float2(*(__half2*)&words.x), high = __half22float2(*(__half2*)&words.y);
  return make_float4(low.x, low.y, high.x, high.y);
}
__device__ float4 load(const char4* src, int i) {
  char4 v = src[i];
  return make_float4(v.x, v.y, v.z, v.w);
}

template <bool I8> using Sum = std::conditional_t<I8, int4, float4>;
template <bool I8> using Stored = std::conditional_t<I8, char4, uint2>;

// A convolution of SIZE x SIZE pixels, stride 1, zeros around: see matrix_conv.kern for the names.
template <bool I8, int SIZE, int DEPTH, int OUT, int WINDOW, int COLUMNS, int SPLIT, int BATCH>
__global__ void __launch_bounds__(GROUP)
    convolve(const uint2* src, const uint2* weights, const float* scales, Stored<I8>* dst) {
  constexpr int PARTS = DEPTH / (I8 ? 8 : 4), TERMS = WINDOW * WINDOW * PARTS, PIXELS = SIZE * SIZE;
  constexpr int BATCHES = ((TERMS + 3) / 4 + SPLIT * BATCH - 1) / (SPLIT * BATCH), EDGE = WINDOW / 2;
  constexpr int PACKED = (OUT + 7) / 8, TILES_ACROSS = (PACKED + COLUMNS - 1) / COLUMNS, PER_GROUP = GROUP / 32 / SPLIT;
  constexpr int WARP_TILES = (PIXELS + 15) / 16 * TILES_ACROSS;
  __shared__ Sum<I8> partial[COLUMNS * (GROUP + 4)];
  int number = threadIdx.x, lane = number & 31, part = number / 32 % SPLIT, first_tile = blockIdx.x * PER_GROUP;
  int tile = min(first_tile + number / 32 / SPLIT, WARP_TILES - 1), first_column = tile % TILES_ACROSS * COLUMNS;
  int y[2], x[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int pixel = min(tile / TILES_ACROSS * 16 + 8 * i + (lane >> 2), PIXELS - 1);
    y[i] = pixel / SIZE - EDGE;
    x[i] = pixel % SIZE - EDGE;
  }
  Sum<I8> sum[COLUMNS];
#pragma unroll
  for (int j = 0; j < COLUMNS; j++) { sum[j] = {}; }
  for (int batch = 0; batch < BATCHES; batch++) {
    uint2 v[BATCH * 2], w[BATCH * COLUMNS];
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
      int index = (batch * BATCH + k) * SPLIT + part;
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        w[k * COLUMNS + j] = weights[(index * PACKED + min(first_column + j, PACKED - 1)) * 32 + lane];
      }
      int term = min(index * 4 + (lane & 3), TERMS - 1), tap = WINDOW == 1 ? 0 : term / PARTS;
#pragma unroll
      for (int i = 0; i < 2; i++) {
        int sy = y[i] + tap / WINDOW, sx = x[i] + tap % WINDOW;
        bool inside = WINDOW == 1 || (sy >= 0 && sy < SIZE && sx >= 0 && sx < SIZE);
        int place = min(max(sy, 0), SIZE - 1) * SIZE + min(max(sx, 0), SIZE - 1);
        uint2 value = src[place * PARTS + term - tap * PARTS];
        v[k * 2 + i] = inside ? value : make_uint2(0, 0);
      }
    }
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) { multiply(sum[j], v[k * 2], v[k * 2 + 1], w[k * COLUMNS + j]); }
    }
  }
#pragma unroll
  for (int j = 0; j < COLUMNS; j++) { partial[j * (GROUP + 4) + number] = sum[j]; }
  __syncthreads();
  for (int item = number; item < PER_GROUP * COLUMNS * 16; item += GROUP) {
    int own = item / (2 * COLUMNS) % PER_GROUP, slice = item % (2 * COLUMNS), r = item / (2 * COLUMNS * PER_GROUP) % 8;
    int place = slice / 2 * (GROUP + 4) + own * SPLIT * 32 + r * 4 + slice % 2 * 2;
    Sum<I8> low = {}, high = {};
    for (int p = 0; p < SPLIT; p++) {
      Sum<I8> a = partial[place + p * 32], b = partial[place + p * 32 + 1];
      low.x += a.x, low.y += a.y, low.z += a.z, low.w += a.w;
      high.x += b.x, high.y += b.y, high.z += b.z, high.w += b.w;
    }
    int s = (first_tile + own) % TILES_ACROSS * COLUMNS * 2 + slice;
    for (int upper = 0; upper < 2; upper++) {
      int pixel = (first_tile + own) / TILES_ACROSS * 16 + 8 * upper + r;
      float4 v = upper == 0 ? make_float4(low.x, low.y, high.x, high.y) : make_float4(low.z, low.w, high.z, high.w);
      if (first_tile + own < WARP_TILES && pixel < PIXELS && s < OUT / 4) {
        float4 scale = ((const float4*)scales)[s];
        float4 stored = make_float4(step(v.x, scale.x), step(v.y, scale.y), step(v.z, scale.z), step(v.w, scale.w));
        store(dst, pixel * (OUT / 4) + s, stored);
      }
    }
  }
}

// A depthwise convolution of 3x3: an invocation computes four channels of a pixel. See depthwise.kern.
template <bool I8, int SIZE, int CHANNELS>
__global__ void __launch_bounds__(GROUP)
    filter(const Stored<I8>* src, const Stored<I8>* weights, const float* scales, Stored<I8>* dst) {
  constexpr int SLICES = CHANNELS / 4, ITEMS = SIZE * SIZE * SLICES;
  int item = min(int(blockIdx.x * GROUP + threadIdx.x), ITEMS - 1), s = item % SLICES, pixel = item / SLICES;
  float4 sum = {};
#pragma unroll
  for (int tap = 0; tap < 9; tap++) {
    int y = pixel / SIZE + tap / 3 - 1, x = pixel % SIZE + tap % 3 - 1;
    float4 v = load(src, (min(max(y, 0), SIZE - 1) * SIZE + min(max(x, 0), SIZE - 1)) * SLICES + s);
    float4 w = load(weights, tap * SLICES + s);
    if (y < 0 || y >= SIZE || x < 0 || x >= SIZE) { v = {}; }
    sum.x += v.x * w.x, sum.y += v.y * w.y, sum.z += v.z * w.z, sum.w += v.w * w.w;
  }
  float4 scale = ((const float4*)scales)[s];
  store(dst, item, make_float4(step(sum.x, scale.x), step(sum.y, scale.y), step(sum.z, scale.z), step(sum.w, scale.w)));
}
__global__ void nothing() {}

// Microseconds per launch in a graph.
static double microseconds(const std::function<void(cudaStream_t)>& launch) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < LAUNCHES; i++) { launch(stream); }
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&ready, graph, 0));
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int run = 0; run < RUNS + 5; run++) {
    float taken;
    check(cudaEventRecord(begin, stream));
    check(cudaGraphLaunch(ready, stream));
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&taken, begin, end));
    if (run >= 5) { times.push_back(taken); }
  }
  std::sort(times.begin(), times.end());
  check(cudaGraphExecDestroy(ready));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  return times[RUNS / 2] * 1e3 / LAUNCHES;
}

static uint32_t random_state = 1;
static int random_byte() {
  random_state = random_state * 1664525u + 1013904223u;
  return int(random_state >> 24) - 128;
}
template <class T> static T* on_gpu(const std::vector<T>& values) {
  T* memory;
  check(cudaMalloc(&memory, values.size() * sizeof(T)));
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}
// Whole numbers as they are stored.
template <bool I8> static void* stored(const std::vector<int>& values) {
  if constexpr (I8) { return on_gpu(std::vector<int8_t>(values.begin(), values.end())); }
  std::vector<__half> halves;
  for (int value : values) { halves.push_back(__float2half(float(value))); }
  return on_gpu(halves);
}
// The weights [out][tap][channel] in the order of pack_fragments (kernels/ops/convolution/packing.py).
template <bool I8> static std::vector<int> packed(const std::vector<int>& weights, int out, int taps, int depth, int steps) {
  int each = I8 ? 8 : 4, parts = depth / each, columns = (out + 7) / 8;
  std::vector<int> result(size_t(steps) * columns * 32 * each);
  for (int k = 0; k < steps; k++) {
    for (int j = 0; j < columns; j++) {
      for (int lane = 0; lane < 32; lane++) {
        int term = k * 4 + lane % 4, channel = j * 8 + lane / 4;
        for (int c = 0; c < each && term < taps * parts && channel < out; c++) {
          result[((size_t(k) * columns + j) * 32 + lane) * each + c] =
              weights[(size_t(channel) * taps + term / parts) * depth + term % parts * each + c];
        }
      }
    }
  }
  return result;
}

struct Best {
  double time = 1e9;
  int columns = 0, split = 0, batch = 0;
  std::vector<int> values;
};
static std::vector<int> read(const void* memory, size_t count, bool i8) {
  std::vector<int> values(count);
  if (i8) {
    std::vector<int8_t> bytes(count);
    check(cudaMemcpy(bytes.data(), memory, count, cudaMemcpyDeviceToHost));
    std::copy(bytes.begin(), bytes.end(), values.begin());
  } else {
    std::vector<__half> halves(count);
    check(cudaMemcpy(halves.data(), memory, 2 * count, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) { values[i] = int(__half2float(halves[i])); }
  }
  return values;
}

template <bool I8, int SIZE, int DEPTH, int OUT, int WINDOW, int COLUMNS, int SPLIT>
static void attempt(Best& best, const std::vector<int>& src, const std::vector<int>& weights, const float* scales) {
  constexpr int PARTS = DEPTH / (I8 ? 8 : 4), STEPS = (WINDOW * WINDOW * PARTS + 3) / 4, SHARE = (STEPS + SPLIT - 1) / SPLIT;
  constexpr int BATCH = SHARE % 4 == 0 ? 4 : SHARE % 3 == 0 ? 3 : SHARE % 2 == 0 ? 2 : SHARE > 6 ? 4 : 1;
  constexpr int BATCHES = (SHARE + BATCH - 1) / BATCH, PACKED = (OUT + 7) / 8, PER_GROUP = GROUP / 32 / SPLIT;
  constexpr int WARP_TILES = (SIZE * SIZE + 15) / 16 * ((PACKED + COLUMNS - 1) / COLUMNS);
  void* a = stored<I8>(src);
  void* w = stored<I8>(packed<I8>(weights, OUT, WINDOW * WINDOW, DEPTH, BATCHES * BATCH * SPLIT));
  void* d;
  check(cudaMalloc(&d, size_t(SIZE) * SIZE * OUT * (I8 ? 1 : 2)));
  auto launch = [&](cudaStream_t stream) {
    convolve<I8, SIZE, DEPTH, OUT, WINDOW, COLUMNS, SPLIT, BATCH><<<(WARP_TILES + PER_GROUP - 1) / PER_GROUP, GROUP, 0, stream>>>(
        (const uint2*)a, (const uint2*)w, scales, (Stored<I8>*)d);
  };
  double time = microseconds(launch);
  check(cudaDeviceSynchronize());
  if (time < best.time) { best = {time, COLUMNS, SPLIT, BATCH, read(d, size_t(SIZE) * SIZE * OUT, I8)}; }
  check(cudaFree(a));
  check(cudaFree(w));
  check(cudaFree(d));
}

// Sixteen pixels by 8 * COLUMNS channels, and SPLIT warps to a sum: the rule's tile first, and its neighbours.
template <int SIZE, int DEPTH, int OUT, int WINDOW, int COLUMNS, int SPLIT> static void layer(const char* name) {
  std::vector<int> src(size_t(SIZE) * SIZE * DEPTH), weights(size_t(OUT) * WINDOW * WINDOW * DEPTH);
  for (int& value : src) { value = random_byte(); }
  for (int& value : weights) { value = random_byte(); }
  float* scales = on_gpu(std::vector<float>(OUT, 1.0f / (40.0f * 128.0f * WINDOW)));
  Best halves, bytes;
  constexpr int WIDER = COLUMNS < 4 ? COLUMNS + 1 : 2, MORE = SPLIT < 8 ? 2 * SPLIT : 2, LESS = SPLIT > 1 ? SPLIT / 2 : 1;
  attempt<false, SIZE, DEPTH, OUT, WINDOW, COLUMNS, SPLIT>(halves, src, weights, scales);
  attempt<false, SIZE, DEPTH, OUT, WINDOW, WIDER, SPLIT>(halves, src, weights, scales);
  attempt<false, SIZE, DEPTH, OUT, WINDOW, COLUMNS, MORE>(halves, src, weights, scales);
  attempt<false, SIZE, DEPTH, OUT, WINDOW, COLUMNS, LESS>(halves, src, weights, scales);
  attempt<true, SIZE, DEPTH, OUT, WINDOW, COLUMNS, SPLIT>(bytes, src, weights, scales);
  attempt<true, SIZE, DEPTH, OUT, WINDOW, WIDER, SPLIT>(bytes, src, weights, scales);
  attempt<true, SIZE, DEPTH, OUT, WINDOW, COLUMNS, MORE>(bytes, src, weights, scales);
  attempt<true, SIZE, DEPTH, OUT, WINDOW, COLUMNS, LESS>(bytes, src, weights, scales);
  int differ = 0;
  for (size_t i = 0; i < halves.values.size(); i++) { differ += halves.values[i] != bytes.values[i]; }
  printf("{\"layer\": \"%s\", \"halves\": %.2f, \"bytes\": %.2f, \"differ\": %d, \"values\": %zu, ", name, halves.time, bytes.time,
         differ, halves.values.size());
  printf("\"tiles\": [[%d, %d, %d], [%d, %d, %d]]}\n", halves.columns, halves.split, halves.batch, bytes.columns, bytes.split,
         bytes.batch);
  fflush(stdout);
  check(cudaFree(scales));
}

template <bool I8, int SIZE, int CHANNELS>
static double depthwise(const std::vector<int>& src, const std::vector<int>& weights, const float* scales, std::vector<int>& values) {
  void *a = stored<I8>(src), *w = stored<I8>(weights), *d;
  check(cudaMalloc(&d, src.size() * (I8 ? 1 : 2)));
  double time = microseconds([&](cudaStream_t stream) {
    filter<I8, SIZE, CHANNELS><<<(SIZE * SIZE * CHANNELS / 4 + GROUP - 1) / GROUP, GROUP, 0, stream>>>(
        (const Stored<I8>*)a, (const Stored<I8>*)w, scales, (Stored<I8>*)d);
  });
  values = read(d, src.size(), I8);
  check(cudaFree(a));
  check(cudaFree(w));
  check(cudaFree(d));
  return time;
}
template <int SIZE, int CHANNELS> static void depthwise_layer(const char* name) {
  std::vector<int> src(size_t(SIZE) * SIZE * CHANNELS), weights(9 * CHANNELS), values[2];
  for (int& value : src) { value = random_byte(); }
  for (int& value : weights) { value = random_byte(); }
  float* scales = on_gpu(std::vector<float>(CHANNELS, 1.0f / 400.0f));
  double halves = depthwise<false, SIZE, CHANNELS>(src, weights, scales, values[0]);
  double bytes = depthwise<true, SIZE, CHANNELS>(src, weights, scales, values[1]);
  int differ = 0;
  for (size_t i = 0; i < values[0].size(); i++) { differ += values[0][i] != values[1][i]; }
  printf("{\"layer\": \"%s\", \"halves\": %.2f, \"bytes\": %.2f, \"differ\": %d, \"values\": %zu}\n", name, halves, bytes, differ,
         values[0].size());
  fflush(stdout);
  check(cudaFree(scales));
}

int main() {
  cudaDeviceProp found;
  int driver;
  check(cudaGetDeviceProperties(&found, 0));
  check(cudaDriverGetVersion(&driver));
  printf("{\"machine\": \"%s\", \"cuda\": %d}\n", found.name, driver);
  double alone = microseconds([](cudaStream_t stream) { nothing<<<132, GROUP, 0, stream>>>(); });
  printf("{\"layer\": \"nothing\", \"halves\": %.2f, \"bytes\": %.2f}\n", alone, alone);
#if LARGER == 1
  layer<56, 64, 64, 3, 4, 2>("resnet18 3x3, 64 to 64, 56x56");
  layer<28, 128, 128, 3, 4, 4>("resnet18 3x3, 128 to 128, 28x28");
  layer<14, 256, 256, 3, 2, 8>("resnet18 3x3, 256 to 256, 14x14");
  layer<7, 512, 512, 3, 2, 8>("resnet18 3x3, 512 to 512, 7x7");
#elif LARGER == 2
  layer<160, 16, 16, 3, 2, 1>("yolov8n 3x3, 16 to 16, 160x160");
  layer<80, 64, 64, 3, 4, 2>("yolov8n 3x3, 64 to 64, 80x80");
  layer<80, 64, 80, 3, 4, 2>("yolov8n 3x3, 64 to 80, 80x80");
  layer<40, 64, 64, 3, 4, 2>("yolov8n 3x3, 64 to 64, 40x40");
  layer<80, 128, 64, 1, 4, 2>("yolov8n 128 to 64, 80x80");
  layer<20, 256, 256, 1, 2, 4>("yolov8n 256 to 256, 20x20");
#elif LARGER == 3
  layer<512, 24, 24, 3, 3, 1>("unet 3x3, 24 to 24, 512x512");
  layer<256, 48, 48, 3, 3, 1>("unet 3x3, 48 to 48, 256x256");
  layer<128, 96, 96, 3, 4, 2>("unet 3x3, 96 to 96, 128x128");
  layer<64, 192, 192, 3, 4, 2>("unet 3x3, 192 to 192, 64x64");
#else
  layer<129, 32, 64, 1, 4, 1>("posenet 32 to 64, 129x129");
  layer<65, 64, 128, 1, 4, 1>("posenet 64 to 128, 65x65");
  layer<65, 128, 128, 1, 4, 2>("posenet 128 to 128, 65x65");
  layer<33, 128, 256, 1, 4, 2>("posenet 128 to 256, 33x33");
  layer<33, 256, 256, 1, 4, 2>("posenet 256 to 256, 33x33");
  layer<17, 512, 512, 1, 3, 4>("posenet 512 to 512, 17x17");
  layer<9, 1024, 1024, 1, 2, 4>("posenet 1024 to 1024, 9x9");
  layer<64, 24, 144, 1, 3, 1>("predict 24 to 144, 64x64");
  layer<32, 192, 32, 1, 2, 4>("predict 192 to 32, 32x32");
  layer<16, 64, 384, 1, 3, 2>("predict 64 to 384, 16x16");
  layer<16, 384, 64, 1, 1, 8>("predict 384 to 64, 16x16");
  layer<8, 160, 960, 1, 2, 2>("predict 160 to 960, 8x8");
  layer<8, 960, 160, 1, 1, 8>("predict 960 to 160, 8x8");
  layer<8, 320, 1280, 1, 2, 4>("predict 320 to 1280, 8x8");
  layer<96, 32, 32, 3, 4, 2>("transfer 3x3, 32 to 32, 96x96");
  layer<192, 32, 16, 3, 2, 1>("transfer 3x3, 32 to 16, 192x192");
  layer<384, 16, 8, 3, 1, 1>("transfer 3x3, 16 to 8, 384x384");
  depthwise_layer<129, 64>("posenet depthwise 64, 129x129");
  depthwise_layer<65, 128>("posenet depthwise 128, 65x65");
  depthwise_layer<17, 512>("posenet depthwise 512, 17x17");
  depthwise_layer<64, 144>("predict depthwise 144, 64x64");
#endif
}
