// Normalisation of rows (layer norm) and of columns (batch norm), and the way back.
#include "common.cuh"

// The sum of what eight lanes have, to all of them.
__device__ __forceinline__ float sum_of_eight(float v) {
	for (int d = 4; d > 0; d /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, d);
	return v;
}

// Eight lanes to a row, whose sums are eight, one for the columns of each remainder.
//
// z = scale·normed and normed = (z + bias − mean)·inverse, with the row's own mean and
// inverse = 1/√(variance + epsilon).
extern "C" __global__ void layer_norm(float *__restrict__ z, float *__restrict__ normed, float *inverse, const float *__restrict__ bias,
                                      const float *__restrict__ scale, float epsilon, i64 width, const u32 *at, i64 most) {
	i64 i = this_row();
	bool mine = i < rows_of(at, most); // the other rows of the warp may be there where this is not
	i64 end = mine ? width : 0;
	z += i * width;
	normed += i * width;
	float sum = 0;
#pragma unroll 8
	for (i64 c = threadIdx.x; c < end; c += 8)
		sum += z[c] + bias[c];
	float mean = sum_of_eight(sum) / (float)width;
	sum = 0;
#pragma unroll 8
	for (i64 c = threadIdx.x; c < end; c += 8) {
		float v = z[c] + bias[c] - mean;
		sum += v * v;
	}
	float factor = (float)(1 / sqrt((double)(sum_of_eight(sum) / (float)width + epsilon)));
#pragma unroll 8
	for (i64 c = threadIdx.x; c < end; c += 8) {
		float v = (z[c] + bias[c] - mean) * factor;
		normed[c] = v;
		z[c] = v * scale[c];
	}
	if (mine && threadIdx.x == 0)
		inverse[i] = factor;
}

// With h = scale·g, g = (h − mean of h − normed · mean of h·normed)·inverse.
extern "C" __global__ void layer_norm_backward(float *__restrict__ g, const float *__restrict__ normed, const float *__restrict__ inverse,
                                               const float *__restrict__ scale, i64 width, const u32 *at, i64 most) {
	i64 i = this_row();
	bool mine = i < rows_of(at, most);
	i64 end = mine ? width : 0;
	g += i * width;
	normed += i * width;
	float sum = 0, along = 0;
#pragma unroll 8
	for (i64 c = threadIdx.x; c < end; c += 8) {
		float h = g[c] * scale[c];
		sum += h;
		along += h * normed[c];
	}
	float mean = sum_of_eight(sum) / (float)width, factor = mine ? inverse[i] : 0;
	along = sum_of_eight(along) / (float)width;
#pragma unroll 8
	for (i64 c = threadIdx.x; c < end; c += 8)
		g[c] = (g[c] * scale[c] - mean - normed[c] * along) * factor;
}

// The sums of a group of rows, as backward_none computes them: of a·b, or of the
// squares of a − mean. A block is 32 wide and 8 high; its y index takes columns.
template <class Term> __device__ __forceinline__ void sum_group(float *sums, i64 width, i64 group, i64 rows, Term term) {
	__shared__ float partial[8][32];
	i64 c = (i64)blockIdx.y * 32 + threadIdx.x, to = min(((i64)blockIdx.x + 1) * group, rows);
	float sum = 0;
	if (c < width)
		for (i64 i = blockIdx.x * group + threadIdx.y; i < to; i += 8)
			sum += term(i, c);
	partial[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y != 0 || c >= width)
		return;
	for (int k = 1; k < 8; k++)
		sum += partial[k][threadIdx.x];
	sums[blockIdx.x * width + c] = sum;
}

extern "C" __global__ void sum_products(float *sums, const float *a, const float *b, i64 width, i64 group, const u32 *at, i64 most) {
	sum_group(sums, width, group, rows_of(at, most), [=](i64 i, i64 c) { return a[i * width + c] * b[i * width + c]; });
}

extern "C" __global__ void sum_squares(float *sums, const float *a, const float *mean, i64 width, i64 group, const u32 *at, i64 most) {
	sum_group(sums, width, group, rows_of(at, most), [=](i64 i, i64 c) {
		float v = a[i * width + c] - mean[c];
		return v * v;
	});
}

// mean = sum over the number of rows, in place.
extern "C" __global__ void column_means(float *mean, i64 width, const u32 *at, i64 most) {
	i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	if (c < width)
		mean[c] /= (float)max(rows_of(at, most), (i64)1);
}

// inverse = 1/√(variance + epsilon), and variance, in place of the sum of squares, that
// of which the rows are a sample.
extern "C" __global__ void column_variances(float *variance, float *inverse, float epsilon, i64 width, const u32 *at, i64 most) {
	i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x, rows = rows_of(at, most);
	if (c >= width)
		return;
	double squares = variance[c];
	inverse[c] = (float)(1 / sqrt(squares / (double)max(rows, (i64)1) + (double)epsilon));
	variance[c] = (float)(squares / (double)max(rows - 1, (i64)1));
}

// z = scale·normed, normed = (z − mean)·inverse, with columns' means and inverses;
// normed is not stored if it is null.
template <int N>
__device__ __forceinline__ void standardize_body(float *z, float *normed, const float *mean, const float *inverse, const float *scale, i64 width,
                                                 const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> f = load<N>(z + i * width + c);
		for (int n = 0; n < N; n++)
			f.v[n] = (f.v[n] - mean[c + n]) * inverse[c + n];
		if (normed)
			store<N>(normed + i * width + c, f);
		for (int n = 0; n < N; n++)
			f.v[n] *= scale[c + n];
		store<N>(z + i * width + c, f);
	}
}

BOTH(standardize, LIST(float *z, float *normed, const float *mean, const float *inverse, const float *scale, i64 width, const u32 *at, i64 most),
     LIST(z, normed, mean, inverse, scale, width, at, most))

// g = scale·inverse·(g − mean of g − normed · mean of g·normed), the means being shift
// and along over the number of rows.
template <int N>
__device__ __forceinline__ void standardize_backward_body(float *g, const float *normed, const float *inverse, const float *scale,
                                                          const float *shift, const float *along, i64 width, const u32 *at, i64 most) {
	i64 i = this_row(), rows = rows_of(at, most);
	if (i >= rows)
		return;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> f = load<N>(g + i * width + c), h = load<N>(normed + i * width + c);
		for (int n = 0; n < N; n++)
			f.v[n] = scale[c + n] * inverse[c + n] * (f.v[n] - shift[c + n] / (float)rows - h.v[n] * (along[c + n] / (float)rows));
		store<N>(g + i * width + c, f);
	}
}

BOTH(standardize_backward,
     LIST(float *g, const float *normed, const float *inverse, const float *scale, const float *shift, const float *along, i64 width,
          const u32 *at, i64 most),
     LIST(g, normed, inverse, scale, shift, along, width, at, most))
