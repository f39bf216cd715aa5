#define LOCAL ((int)get_local_id(0))
#define AWAIT_INPUTS
#define OPAQUE(n) (n)
#define ALLOW_NEXT
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define F4(x) ((float4)(x))
#define F4V(a, b, c, d) ((float4)(a, b, c, d))
#define TO_F(x) ((float)(x))
#define TO_I(x) ((int)(x))
#define SELECT4(a, b, condition) ((condition) ? (b) : (a))
#define RSQRT(x) rsqrt(x)
#define RINT(x) rint(x)
#define FLOAT_OF_BITS(x) as_float(x)
#define FLOAT_OF_INT(x) as_float(x)
#define INT_OF_FLOAT(x) as_int(x)
#define ints_of(v) convert_int4(v)
#define floats_of(v) convert_float4(v)
float4 NEAREST_HALF4(float4 v) {
  ushort halves[4];
  vstore_half4_rte(v, 0, (__private half*)halves);
  return vload_half4(0, (__private half*)halves);
}
#if defined(NVIDIA)
// LOCAL, read again. Otherwise a compiler computes what depends on it once for all kernels of a program, and keeps that
// in registers throughout.
int reload_local_id() {
  int number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
}
// Unroll all rounds of a loop, or two or four, so that their loads are in flight together. More rounds take more
// registers, and a program of all steps takes those of its largest kernel.
#define UNROLL _Pragma("unroll")
#define UNROLL1
#define UNROLL2 _Pragma("unroll 2")
#define UNROLL4 _Pragma("unroll 4")
// Invocations that read each other's registers: add_across adds the value of invocation LOCAL ^ mask.
#define SUBGROUP 32
float shuffle_xor(float v, int mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(v), "r"(mask));
  return other;
}
float largest_across(float v, int mask) { return fmax(v, shuffle_xor(v, mask)); }
float4 add_across(float4 v, int mask) {
  float4 other = (float4)(shuffle_xor(v.x, mask), shuffle_xor(v.y, mask), shuffle_xor(v.z, mask), shuffle_xor(v.w, mask));
  return v + other;
}
// NVIDIA's vloada_half4 makes two loads.
float4 half4_of(uint2 words) {
  float4 v;
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(v.x), "=f"(v.y) : "r"(words.x));
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(v.z), "=f"(v.w) : "r"(words.y));
  return v;
}
// Halves, two per word.
uint halves_of(float low, float high) {
  uint word;
  asm("{.reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b};}" : "=r"(word) : "f"(low), "f"(high));
  return word;
}
uint2 words_of(float4 v) { return (uint2)(halves_of(v.x, v.y), halves_of(v.z, v.w)); }
// NVIDIA's vstorea_half4 makes four stores.
#define STORE_HALF4(v, i, p) ((__global uint2*)(p))[i] = words_of(v)
#define LOAD_HALF4(i, p) half4_of(((__global const uint2*)(p))[i])
#else
#define reload_local_id() ((int)get_local_id(0))
#define UNROLL
#define UNROLL1
#define UNROLL2
#define UNROLL4
#define SUBGROUP 1
#define largest_across(v, mask) (v)
#define add_across(v, mask) (v)
#define LOAD_HALF4(i, p) vloada_half4(i, p)
#define STORE_HALF4(v, i, p) vstorea_half4(v, i, p)
#endif
#define LANE(v, i) ((i) == 0 ? (v).x : (i) == 1 ? (v).y : (i) == 2 ? (v).z : (v).w)

__constant sampler_t texel_sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

// The position of pixel (x, y) of a tensor in a texture, by the rows of an affine map of pixel centres; .w is the
// texture's size.
float2 texel_position(float4 row0, float4 row1, float x, float y) {
  return (float2)(row0.x * (x + 0.5f) + row0.y * (y + 0.5f) + row0.z, row1.x * (x + 0.5f) + row1.y * (y + 0.5f) + row1.z);
}
// No image that OpenCL reads here is sRGB, so that there is nothing to encode.
float4 sample_exact(read_only image2d_t image, float4 row0, float4 row1, float x, float y, bool encode) {
  return read_imagef(image, texel_sampler, convert_int2(floor(texel_position(row0, row1, x, y))));
}
float4 sample_bilinear(read_only image2d_t image, float4 row0, float4 row1, float x, float y, bool encode) {
  float2 position = texel_position(row0, row1, x, y) - 0.5f;
  float2 corner = floor(position);
  float2 part = position - corner;
  int2 last = (int2)((int)row0.w, (int)row1.w) - 1;
  int2 low = clamp(convert_int2(corner), (int2)(0), last);
  int2 high = clamp(convert_int2(corner) + 1, (int2)(0), last);
  float4 top = mix(read_imagef(image, texel_sampler, low), read_imagef(image, texel_sampler, (int2)(high.x, low.y)), part.x);
  float4 bottom = mix(read_imagef(image, texel_sampler, (int2)(low.x, high.y)), read_imagef(image, texel_sampler, high), part.x);
  return mix(top, bottom, part.y);
}
#define FETCH(image, x, y) read_imagef(image, texel_sampler, (int2)(x, y))
#define store_texel(image, x, y, row0, row1, texel) write_imagef(image, convert_int2(floor(texel_position(row0, row1, x, y))), texel)

#ifdef MATRIX_UNITS
// Tensor cores of NVIDIA's compute capability 8.0 and newer: see prelude.fragments. Their floats (tf32) have 11 bits.
// Weights that were halves are exact; each other value is split into two of 11 bits. The second part of an infinity
// would be NaN. A large number replaces it, so that the sum stays infinite.
#define TF32_PRODUCT(a0, a1, a2, a3, b0, b1) \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
    : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) \
    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(as_uint(b0)), "r"(as_uint(b1)))
#define TF32_REST(a, high) as_uint4(fmin(a - as_float4(high), (float4)(0x1p110f)))
float4 multiply_floats(float4 sum, float4 p, float4 q, float4 w) {
  uint4 p_high = as_uint4(p) & 0xFFFFE000u;
  uint4 q_high = as_uint4(q) & 0xFFFFE000u;
  uint4 p_low = TF32_REST(p, p_high);
  uint4 q_low = TF32_REST(q, q_high);
  float d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  TF32_PRODUCT(p_low.x, q_low.x, p_low.y, q_low.y, w.x, w.y);
  TF32_PRODUCT(p_low.z, q_low.z, p_low.w, q_low.w, w.z, w.w);
  TF32_PRODUCT(p_high.x, q_high.x, p_high.y, q_high.y, w.x, w.y);
  TF32_PRODUCT(p_high.z, q_high.z, p_high.w, q_high.w, w.z, w.w);
  return (float4)(d0, d1, d2, d3);
}
// The same product for halves, four in two words.
float4 multiply_halves(float4 sum, uint2 p, uint2 q, uint2 w) {
  float d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
    : "r"(p.x), "r"(q.x), "r"(p.y), "r"(q.y), "r"(w.x), "r"(w.y));
  return (float4)(d0, d1, d2, d3);
}
// 128 times a float4 as eight halves: the four nearest halves, and the halves of the rests.
bool fits_pair(float4 v) { return all(fabs(v) <= (float4)(511.0f)); }
float4 pair_of(float4 value) {
  float4 v = value * 128.0f;
  uint2 high = words_of(v);
  return as_float4((uint4)(high, words_of(v - half4_of(high))));
}
uint2 first_halves(float4 pair) { return as_uint4(pair).xy; }
uint2 second_halves(float4 pair) { return as_uint4(pair).zw; }
#define MULTIPLY_FLOATS(sum, p, q, w) sum = multiply_floats(sum, p, q, w)
#define MULTIPLY_HALVES(sum, p, q, w) sum = multiply_halves(sum, p, q, w)
// The same with weights as rows (see prelude.fragments), and pixels as the column.
float4 multiply_rows_of_halves(float4 sum, uint2 a, uint2 b, uint2 v) {
  float d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
    : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y), "r"(v.x), "r"(v.y));
  return (float4)(d0, d1, d2, d3);
}
float4 multiply_rows_of_floats(float4 sum, float4 a, float4 b, float4 v) {
  uint4 v_high = as_uint4(v) & 0xFFFFE000u;
  uint4 v_low = TF32_REST(v, v_high);
  float d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  TF32_PRODUCT(as_uint(a.x), as_uint(a.z), as_uint(a.y), as_uint(a.w), as_float(v_low.x), as_float(v_low.y));
  TF32_PRODUCT(as_uint(b.x), as_uint(b.z), as_uint(b.y), as_uint(b.w), as_float(v_low.z), as_float(v_low.w));
  TF32_PRODUCT(as_uint(a.x), as_uint(a.z), as_uint(a.y), as_uint(a.w), as_float(v_high.x), as_float(v_high.y));
  TF32_PRODUCT(as_uint(b.x), as_uint(b.z), as_uint(b.y), as_uint(b.w), as_float(v_high.z), as_float(v_high.w));
  return (float4)(d0, d1, d2, d3);
}
#define MULTIPLY_ROWS_OF_FLOATS(sum, a, b, v) sum = multiply_rows_of_floats(sum, a, b, v)
#define NO_HALVES ((uint2)(0u))
uint two_halves(uint a, uint b, int n) {
  return n % 2 == 0 ? (a & 0xFFFFu) | (b << 16) : (a >> 16) | (b & 0xFFFF0000u);
}
uint2 nth_halves(uint2 a, uint2 b, uint2 c, uint2 d, int n) {
  return n < 2 ? (uint2)(two_halves(a.x, b.x, n), two_halves(c.x, d.x, n))
               : (uint2)(two_halves(a.y, b.y, n), two_halves(c.y, d.y, n));
}
// The same product of bytes, eight in two words: p and q have numbers from 0 to 255, w from -128 to 127.
int4 multiply_bytes(int4 sum, uint2 p, uint2 q, uint2 w) {
  int d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
    : "r"(p.x), "r"(q.x), "r"(p.y), "r"(q.y), "r"(w.x), "r"(w.y));
  return (int4)(d0, d1, d2, d3);
}
int4 multiply_rows_of_bytes(int4 sum, uint2 a, uint2 b, uint2 v) {
  int d0 = sum.x, d1 = sum.y, d2 = sum.z, d3 = sum.w;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
    : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y), "r"(v.x), "r"(v.y));
  return (int4)(d0, d1, d2, d3);
}
// Copies of 16 bytes to local memory that go on while the kernel does other things.
void copy_async(__local float4* to, __global const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"((uint)(size_t)to), "l"(from) : "memory");
}
#define COMMIT_COPIES asm volatile("cp.async.commit_group;" : : : "memory")
#define AWAIT_COPIES(n) asm volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")
#endif
#ifdef WARPGROUPS
// Products of whole warpgroups: see warpgroups.py, and prelude.cuda for the same functions. OpenCL's compiler does not
// take these instructions. They pass it as comments of PTX, which interop/cl/ptx.py turns into instructions.
#define SM_90A "//@ "
ulong octet_matrix(__local const float4* array, int at, int apart, int row) {
  uint start = ((uint)(size_t)array >> 4) + (uint)at;
  return (ulong)(uint)row << 32 | (ulong)(start | (uint)apart << 16);
}
void copy_octet(__local float4* to, __global const void* from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" : : "r"((uint)(size_t)to), "l"(from), "r"(real ? 16 : 0) : "memory");
}
void copy_slice(__local float4* to, int slice, __global const void* from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" : : "r"((uint)(size_t)to + 8u * (uint)slice), "l"(from), "r"(real ? 8 : 0) : "memory");
}
void prepare_arrivals(__local float4* arrivals, int count) {
  if (get_local_id(0) == 0) {
    for (int i = 0; i < count; i++) {
      asm volatile(SM_90A "mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"((uint)(size_t)(arrivals + i)) : "memory");
    }
    asm volatile(SM_90A "fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");
  }
}
void copy_stage(__local float4* to, __global const void* from, int octets, __local float4* arrival) {
  if (get_local_id(0) == 0) {
    uint there = (uint)(size_t)arrival;
    asm volatile(SM_90A "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(there), "r"(16 * octets) : "memory");
    asm volatile(SM_90A "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      : : "r"((uint)(size_t)to), "l"(from), "r"(16 * octets), "r"(there) : "memory");
  }
}
void await_arrival(__local float4* arrival, int phase) {
  asm volatile(SM_90A "{.reg .pred there; again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1; @!there bra again;}"
    : : "r"((uint)(size_t)arrival), "r"(phase) : "memory");
}
void release_arrivals(__local float4* arrivals, int count) {
  for (int i = 0; get_local_id(0) == 0 && i < count; i++) {
    asm volatile(SM_90A "mbarrier.inval.shared::cta.b64 [%0];" : : "r"((uint)(size_t)(arrivals + i)) : "memory");
  }
  BARRIER;
}
#define RELEASE_ARRIVALS(array, n) release_arrivals(array, n)
#define PREPARE_ARRIVALS(array, n) prepare_arrivals(array, n)
#define AWAIT_STAGE(array, i, phase) await_arrival((array) + (i), phase)
#define SHOW_COPIES asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory")
#define BEGIN_PRODUCTS asm volatile(SM_90A "wgmma.fence.sync.aligned;" : : : "memory")
#define COMMIT_PRODUCTS asm volatile(SM_90A "wgmma.commit_group.sync.aligned;" : : : "memory")
#define AWAIT_PRODUCTS(n) asm volatile(SM_90A "wgmma.wait_group.sync.aligned %0;" : : "n"(n) : "memory")
#endif
