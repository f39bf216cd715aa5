#define LOCAL ((int)get_local_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define F4(x) ((float4)(x))
#define F4V(a, b, c, d) ((float4)(a, b, c, d))
#define TO_F(x) ((float)(x))
#define TO_I(x) ((int)(x))
#define SELECT4(a, b, condition) ((condition) ? (b) : (a))
#define RSQRT(x) rsqrt(x)
#define RINT(x) rint(x)
#define LANE(v, i) ((i) == 0 ? (v).x : (i) == 1 ? (v).y : (i) == 2 ? (v).z : (v).w)

__constant sampler_t texel_sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

// Where pixel (x, y) of a tensor lies in a texture: the rows of an affine map of pixel centres; .w is the texture's size.
float2 texel_position(float4 row0, float4 row1, float x, float y) {
  return (float2)(row0.x * (x + 0.5f) + row0.y * (y + 0.5f) + row0.z, row1.x * (x + 0.5f) + row1.y * (y + 0.5f) + row1.z);
}
float4 sample_exact(read_only image2d_t image, float4 row0, float4 row1, float x, float y) {
  return read_imagef(image, texel_sampler, convert_int2(floor(texel_position(row0, row1, x, y))));
}
float4 sample_bilinear(read_only image2d_t image, float4 row0, float4 row1, float x, float y) {
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
#define store_texel(image, x, y, row0, row1, texel) write_imagef(image, convert_int2(floor(texel_position(row0, row1, x, y))), texel)
