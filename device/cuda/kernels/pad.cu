// Zeros in the rows that a batch leaves over.
#include "common.cuh"

// Rows from the count in device memory up to most become zero, width floats of each.
template <int N> __device__ __forceinline__ void zero_padding_body(float *x, i64 stride, i64 width, const u32 *at, i64 most) {
	for (i64 i = rows_of(at, most) + this_row(); i < most; i += (i64)gridDim.x * blockDim.y)
		for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N)
			store<N>(x + i * stride + c, Floats<N>{});
}

BOTH(zero_padding, LIST(float *x, i64 stride, i64 width, const u32 *at, i64 most), LIST(x, stride, width, at, most))
