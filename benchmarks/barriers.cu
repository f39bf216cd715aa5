// Times barriers between all work-groups of one cooperative launch, on a GPU of compute capability 7.0 or newer:
//
//     nvcc -O3 -arch=native -std=c++17 benchmarks/barriers.cu -o barriers && ./barriers
//
// Printed are microseconds per barrier, alone and with a store of 16 bytes per thread before it and a load of another
// group's after it, for several numbers of groups and threads per group. docs/internals/one-dispatch.md has the results.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

typedef unsigned int uint;
enum Way { NONE, RELEASE, COUNT, ANSWERED, LINES, FLAGS, GATHERED, LIBRARY };
constexpr int MOST_GROUPS = 1056, RUNS = 9, ROUNDS = 2000;

// ``words`` are a count, then flags from word 32 on: one per group, or a count per line of 32 words.
__device__ uint* flag(uint* words, int number) { return words + 32 + number; }
__device__ uint look(uint* place) {
  uint now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(__cvta_generic_to_global(place)) : "memory");
  return now;
}
__device__ void arrive(uint* place, uint n) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(place)), "r"(n) : "memory");
}
__device__ uint arrive_answered(uint* place, uint n) {
  uint before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before) : "l"(__cvta_generic_to_global(place)), "r"(n) : "memory");
  return before;
}
__device__ void set(uint* place, uint value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(place)), "r"(value) : "memory");
}
__device__ bool differs(uint a, uint b) { return ((a ^ b) & 0x80000000u) != 0u; }

// The barrier number ``round``, from 1 on. ``seen`` is the count at the last one.
template <Way WAY> __device__ void wait_for_all(uint* words, uint& seen, uint round) {
  int groups = gridDim.x, group = blockIdx.x, thread = threadIdx.x;
  uint arrival = group == 0 ? 0x80000000u - (uint)(groups - 1) : 1u;
  if (WAY == LIBRARY) {
    cooperative_groups::this_grid().sync();
    return;
  }
  __syncthreads();
  if (WAY == RELEASE && thread == 0) { arrive(words, 1u); }
  if (WAY == COUNT && thread == 0) {
    arrive(words, arrival);
    uint now = look(words);
    while (!differs(seen, now)) { now = look(words); }
    seen = now;
  }
  if (WAY == ANSWERED && thread == 0) {
    uint before = arrive_answered(words, arrival), now = before + arrival;
    while (!differs(before, now)) { now = look(words); }
  }
  if (WAY == LINES && thread < 4) {
    if (thread == 0) { arrive(flag(words, 32 * (group & 3)), 1u); }
    while ((int)(look(flag(words, 32 * thread)) - round * ((groups - thread + 3) / 4)) < 0) {}
  }
  if (WAY == FLAGS) {
    if (thread == 0) { set(flag(words, group), round); }
    for (int g = thread; g < groups; g += blockDim.x) { while ((int)(look(flag(words, g)) - round) < 0) {} }
  }
  if (WAY == GATHERED) {
    if (group == 0) {
      for (int g = max(thread, 1); g < groups; g += blockDim.x) { while ((int)(look(flag(words, g)) - round) < 0) {} }
      __syncthreads();
    }
    if (thread == 0) { set(flag(words, group), round); }
    while (thread == 0 && (int)(look(flag(words, 0)) - round) < 0) {}
  }
  __syncthreads();
}

template <Way WAY, bool WITH_DATA> __global__ void rounds(uint* words, float4* data, unsigned long long* nanoseconds) {
  int all = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + threadIdx.x;
  uint seen = 0u;  // the host clears the words before each launch
  unsigned long long begin, end;
  float4 v = make_float4(own, 1, 2, 3);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (int i = 0; i < ROUNDS; i++) {
    float4* place = data + i % 2 * all;
    if (WITH_DATA) { place[own] = v; }
    wait_for_all<WAY>(words, seen, i + 1);
    if (WITH_DATA) { v.x += place[(own + 37 * blockDim.x) % all].x; }
  }
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  if (own == 0) { *nanoseconds = end - begin; }
  if (v.x == -1.0f) { data[0] = v; }
}

static void* memory(size_t nbytes) {
  void* made = nullptr;
  if (cudaMalloc(&made, nbytes) != cudaSuccess) { exit(1); }
  return made;
}
template <Way WAY, bool WITH_DATA> float microseconds(int groups, int threads) {
  static uint* words = (uint*)memory(4 * (MOST_GROUPS + 256));
  static float4* data = (float4*)memory(sizeof(float4) * 2 * MOST_GROUPS * 512);
  static unsigned long long* nanoseconds = (unsigned long long*)memory(8);
  unsigned long long found[RUNS];
  for (unsigned long long& each : found) {
    void* arguments[] = {&words, &data, &nanoseconds};
    cudaMemset(words, 0, 4 * (MOST_GROUPS + 256));
    cudaLaunchCooperativeKernel((void*)rounds<WAY, WITH_DATA>, groups, threads, arguments, 0, 0);
    if (cudaMemcpy(&each, nanoseconds, 8, cudaMemcpyDeviceToHost) != cudaSuccess) { exit(2); }
  }
  std::sort(found, found + RUNS);
  return found[RUNS / 2] / 1e3f / ROUNDS;
}
constexpr int SIZES[][2] = {{16, 256}, {132, 256}, {264, 256}, {396, 256}, {132, 512}, {528, 128}};
template <Way WAY> void line(const char* label) {
  printf("%-44s", label);
  for (auto& [groups, threads] : SIZES) {
    printf("  %5.2f %5.2f", microseconds<WAY, false>(groups, threads), microseconds<WAY, true>(groups, threads));
  }
  printf("\n");
}

int main() {
  printf("%-44s", "us, alone and with data; groups x threads:");
  for (auto& [groups, threads] : SIZES) { printf("  %5d x %3d", groups, threads); }
  printf("\n");
  line<NONE>("no barrier");
  line<RELEASE>("an arrival that nobody waits for");
  line<COUNT>("one count");
  line<ANSWERED>("one count, polled after the answer");
  line<LINES>("four counts in four lines");
  line<FLAGS>("a flag per group, which all read");
  line<GATHERED>("a flag per group, which the first reads");
  line<LIBRARY>("cooperative_groups");
}
