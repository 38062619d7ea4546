// What follows the sums of a layer: bias, activation, dropout, and the way back.
#include "tail.cuh"

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
// Rows of g beyond the count become zero. sums gets the group's column sums: eight, one
// for the rows of each remainder by eight, added in order. A block is 32 wide and 8
// high; its y index takes columns.
template <int N, Activation A>
__device__ __forceinline__ void unfinish(float *g, const float *y, i64 width, float *sums, i64 group, const u64 *stream, const u32 *ids,
                                         u32 threshold, float scale, const u32 *at, i64 most) {
	i64 first = blockIdx.x * group, rows = rows_of(at, most), to = min(first + group, rows);
	i64 c = ((i64)blockIdx.y * 32 + threadIdx.x) * N;
	Floats<N> sum = {};
	if (c < width) {
#pragma unroll 4
		for (i64 i = first + threadIdx.y; i < to; i += 8) {
			Floats<N> f = load<N>(g + i * width + c);
			if (A != NONE) {
				Floats<N> h = load<N>(y + i * width + c);
				u64 key = A == ELU && threshold ? row_key(*stream, ids ? ids[i] : i) : 0;
				for (int n = 0; n < N; n++)
					f.v[n] = undo<A>(f.v[n], h.v[n], key, c + n, threshold, scale);
				store<N>(g + i * width + c, f);
			}
			for (int n = 0; n < N; n++)
				sum.v[n] += f.v[n];
		}
		for (i64 i = max(first, rows) + threadIdx.y; i < min(first + group, most); i += 8)
			store<N>(g + i * width + c, Floats<N>{});
	}
	store_group<N>(sums, width, c, sum);
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
#pragma unroll 8
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
