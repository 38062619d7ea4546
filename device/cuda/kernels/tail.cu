// What follows the sums of a layer: bias, activation, dropout, and the way back.
#include "common.cuh"

enum Activation { NONE, RELU, ELU };

__device__ __forceinline__ u64 mix64(u64 x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// The key of a row's dropout, and the draw of one of its columns.
__device__ __forceinline__ u64 row_key(u64 stream, u64 row) { return mix64(stream + row * 0x9e3779b97f4a7c15ull); }

__device__ __forceinline__ u32 draw(u64 key, u32 column) {
	u32 x = (u32)key + column * 0x9e3779b9u;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x += (u32)(key >> 32);
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

// exp(v) for v ≤ 0, as package kernel computes it.
__device__ __forceinline__ float exp_of(float v) {
	const float round = 3 << 22;
	v = v < -86 ? -86 : v;
	float t = v * 1.44269504088896340736f + round;
	float n = t - round;
	float power = __uint_as_float((__float_as_uint(t) + 127) << 23);
	v -= n * 0.693359375f;
	v -= n * -2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * v + 1.3981999507e-3f;
	p = p * v + 8.3334519073e-3f;
	p = p * v + 4.1665795894e-2f;
	p = p * v + 1.6666665459e-1f;
	p = p * v + 5.0000001201e-1f;
	return (p * (v * v) + v + 1) * power;
}

// z = dropout(activation(z + bias)), in place. Units whose draw lies below threshold
// are dropped. Rows are known to the dropout by their ids, or their numbers where
// there are none.
template <int N, Activation A>
__device__ __forceinline__ void finish(float *z, i64 width, const float *bias, const u64 *stream, const u32 *ids, u32 threshold, float scale,
                                       const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u64 key = A != NONE && threshold ? row_key(*stream, ids ? ids[i] : i) : 0;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> f = load<N>(z + i * width + c), b = load<N>(bias + c);
		for (int n = 0; n < N; n++) {
			float v = f.v[n] + b.v[n];
			if (A == RELU)
				v = v < 0 ? 0 : v;
			if (A == ELU)
				v = (v < 0 ? 0 : v) + (exp_of(v > 0 ? 0 : v) - 1);
			if (A != NONE && threshold) {
				v *= scale;
				if (draw(key, c + n) < threshold)
					v = 0;
			}
			f.v[n] = v;
		}
		store<N>(z + i * width + c, f);
	}
}

#define PARAMETERS \
	float *z, i64 width, const float *bias, const u64 *stream, const u32 *ids, u32 threshold, float scale, const u32 *at, i64 most
#define ARGUMENTS z, width, bias, stream, ids, threshold, scale, at, most
#define FINISH(name, activation) \
	template <int N> __device__ __forceinline__ void name##_body(PARAMETERS) { finish<N, activation>(ARGUMENTS); } \
	BOTH(name, LIST(PARAMETERS), LIST(ARGUMENTS))

FINISH(bias_none, NONE)
FINISH(bias_relu, RELU)
FINISH(bias_elu, ELU)
#undef PARAMETERS
#undef ARGUMENTS

// The way back, in place, for the rows of one group to a block: y is what finish made.
// sums gets the group's column sums: eight, one for the rows of each remainder by
// eight, added in order. A block is 32 wide and 8 high; its y index takes columns.
template <int N, Activation A>
__device__ __forceinline__ void unfinish(float *g, const float *y, i64 width, float *sums, i64 group, const u64 *stream, const u32 *ids,
                                         u32 threshold, float scale, const u32 *at, i64 most) {
	__shared__ Floats<N> partial[8][32];
	i64 rows = rows_of(at, most), to = min(((i64)blockIdx.x + 1) * group, rows);
	i64 c = ((i64)blockIdx.y * 32 + threadIdx.x) * N;
	Floats<N> sum = {};
	if (c < width) {
#pragma unroll 4
		for (i64 i = blockIdx.x * group + threadIdx.y; i < to; i += 8) {
			Floats<N> f = load<N>(g + i * width + c);
			if (A != NONE) {
				Floats<N> h = load<N>(y + i * width + c);
				u64 key = A == ELU && threshold ? row_key(*stream, ids ? ids[i] : i) : 0;
				for (int n = 0; n < N; n++) {
					float v = f.v[n];
					if (A == RELU)
						v = h.v[n] > 0 ? v * scale : 0;
					if (A == ELU) {
						v *= (h.v[n] < 0 ? h.v[n] : 0) + scale;
						if (threshold && draw(key, c + n) < threshold)
							v = 0;
					}
					f.v[n] = v;
				}
				store<N>(g + i * width + c, f);
			}
			for (int n = 0; n < N; n++)
				sum.v[n] += f.v[n];
		}
	}
	partial[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y != 0 || c >= width)
		return;
	for (int k = 1; k < 8; k++)
		for (int n = 0; n < N; n++)
			sum.v[n] += partial[k][threadIdx.x].v[n];
	store<N>(sums + blockIdx.x * width + c, sum);
}

#define PARAMETERS \
	float *g, const float *y, i64 width, float *sums, i64 group, const u64 *stream, const u32 *ids, u32 threshold, float scale, \
	    const u32 *at, i64 most
#define ARGUMENTS g, y, width, sums, group, stream, ids, threshold, scale, at, most
#define UNFINISH(name, activation) \
	template <int N> __device__ __forceinline__ void name##_body(PARAMETERS) { unfinish<N, activation>(ARGUMENTS); } \
	BOTH(name, LIST(PARAMETERS), LIST(ARGUMENTS))

UNFINISH(backward_none, NONE)
UNFINISH(backward_relu, RELU)
UNFINISH(backward_elu, ELU)

// out[c] = the sum of column c over rows: 32 sums, one for the rows of each remainder
// by 32, added in order. A block is 32 by 32.
extern "C" __global__ void sum_columns(float *out, const float *x, i64 width, i64 rows) {
	__shared__ float partial[32][32];
	i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
	float sum = 0;
	if (c < width)
		for (i64 i = threadIdx.y; i < rows; i += 32)
			sum += x[i * width + c];
	partial[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y != 0 || c >= width)
		return;
	for (int k = 1; k < 32; k++)
		sum += partial[k][threadIdx.x];
	out[c] = sum;
}
