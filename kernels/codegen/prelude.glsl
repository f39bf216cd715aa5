#define float4 vec4
#define int4 ivec4
#define LOCAL int(gl_LocalInvocationID.x)
#define AWAIT_INPUTS
#define ALLOW_NEXT
#define BARRIER barrier()
#define F4(x) vec4(x)
#define F4V(a, b, c, d) vec4(a, b, c, d)
#define TO_F(x) float(x)
#define TO_I(x) int(x)
#define SELECT4(a, b, condition) mix(a, b, condition)
#define RSQRT(x) inversesqrt(x)
#define RINT(x) roundEven(x)
#define FLOAT_OF_BITS(x) uintBitsToFloat(x)
#define FLOAT_OF_INT(x) intBitsToFloat(x)
#define INT_OF_FLOAT(x) floatBitsToInt(x)
#define ints_of(v) ivec4(v)
#define floats_of(v) vec4(v)
#define UNROLL
#define UNROLL1
#define UNROLL2
#define UNROLL4
#define OPAQUE(n) ((n) + int(gl_NumWorkGroups.z >> 1))
#define SUBGROUP 1
#define largest_across(v, mask) (v)
#define add_across(v, mask) (v)
#define LANE(v, i) ((v)[i])
#define fabs(x) abs(x)
#define UNPACK_HALF4(u) vec4(unpackHalf2x16((u).x), unpackHalf2x16((u).y))
#define UNPACK_BYTES(w) vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8), bitfieldExtract(w, 24, 8))
#define UNPACK_SHORTS(a, b) vec4(bitfieldExtract(a, 0, 16), bitfieldExtract(a, 16, 16), bitfieldExtract(b, 0, 16), bitfieldExtract(b, 16, 16))
#define PACK_HALF4(v) uvec2(packHalf2x16((v).xy), packHalf2x16((v).zw))
// NVIDIA's compiler takes unpacking what was packed for nothing to do, and does not round: a zero that it does not know.
#define NEAREST_HALF4(v) UNPACK_HALF4(PACK_HALF4(v) ^ uvec2(gl_NumWorkGroups.z >> 1))
// One half of a buffer of words. Another invocation may store the other half of the word at the same time.
#define LOAD_HALF(memory, i) unpackHalf2x16(memory[(i) >> 1] >> uint(((i) & 1) * 16)).x
#define STORE_HALF(memory, i, v) \
  atomicAnd(memory[(i) >> 1], 0xffff0000u >> uint(((i) & 1) * 16)); \
  atomicOr(memory[(i) >> 1], packHalf2x16(vec2(v, 0.0)) << uint(((i) & 1) * 16))

// 64-bit integers are two words, the lower one first.
float unpack_long(uint low, uint high) {
  bool small = int(high) == int(low) >> 31;
  return small ? float(int(low)) : float(int(high)) * 4294967296.0 + float(low);
}
uvec2 PACK_LONG(float v) {
  if (abs(v) < 2147483648.0) {
    int i = int(v);
    return uvec2(uint(i), uint(i >> 31));
  }
  float high = floor(v / 4294967296.0);
  return uvec2(uint(v - high * 4294967296.0), uint(int(high)));
}
#define UNPACK_INTS(a, b, c, d) vec4(ivec4(a, b, c, d))
#define UNPACK_LONGS(a, b, c, d, e, f, g, h) vec4(unpack_long(a, b), unpack_long(c, d), unpack_long(e, f), unpack_long(g, h))

// The bytes and the 16-bit numbers of pictures, from 0 to 1: number i, which lies in this word.
float byte_of(uint word, int i) { return float(bitfieldExtract(word, (i & 3) * 8, 8)) / 255.0; }
float short_of(uint word, int i) { return float(bitfieldExtract(word, (i & 1) * 16, 16)) / 65535.0; }

// Integers that are floats, as one word: four bytes, or two of 16 bits.
uint PACK_BYTES(vec4 v) {
  uvec4 u = uvec4(ivec4(v)) & 255u;
  return u.x | u.y << 8 | u.z << 16 | u.w << 24;
}
uint PACK_SHORTS(vec2 v) {
  uvec2 u = uvec2(ivec2(v)) & 65535u;
  return u.x | u.y << 16;
}

// The position of pixel (x, y) of a tensor in a texture, by the rows of an affine map of pixel centres; .w is the
// texture's size.
vec2 texel_position(vec4 row0, vec4 row1, float x, float y) {
  vec3 centre = vec3(x + 0.5, y + 0.5, 1.0);
  return vec2(dot(row0.xyz, centre), dot(row1.xyz, centre));
}
// A texel. GL has decoded it to linear light if the texture is sRGB: encode gives the byte in memory / 255 again.
vec4 fetch_texel(sampler2D image, ivec2 position, bool encode) {
  vec4 texel = texelFetch(image, position, 0);
  vec3 curve = 1.055 * pow(texel.rgb, vec3(1.0 / 2.4)) - 0.055;
  vec3 encoded = mix(curve, texel.rgb * 12.92, lessThanEqual(texel.rgb, vec3(0.0031308)));
  return encode ? vec4(floor(encoded * 255.0 + 0.5) / 255.0, texel.a) : texel;
}
vec4 sample_exact(sampler2D image, vec4 row0, vec4 row1, float x, float y, bool encode) {
  return fetch_texel(image, ivec2(floor(texel_position(row0, row1, x, y))), encode);
}
vec4 sample_bilinear(sampler2D image, vec4 row0, vec4 row1, float x, float y, bool encode) {
  vec2 position = texel_position(row0, row1, x, y) - 0.5;
  vec2 corner = floor(position);
  vec2 part = position - corner;
  ivec2 last = ivec2(row0.w, row1.w) - 1;
  ivec2 low = clamp(ivec2(corner), ivec2(0), last);
  ivec2 high = clamp(ivec2(corner) + 1, ivec2(0), last);
  vec4 top = mix(fetch_texel(image, low, encode), fetch_texel(image, ivec2(high.x, low.y), encode), part.x);
  vec4 bottom = mix(fetch_texel(image, ivec2(low.x, high.y), encode), fetch_texel(image, high, encode), part.x);
  return mix(top, bottom, part.y);
}
#define FETCH(image, x, y) texelFetch(image, ivec2(x, y), 0)
#define store_texel(image, x, y, row0, row1, texel) imageStore(image, ivec2(floor(texel_position(row0, row1, x, y))), texel)
