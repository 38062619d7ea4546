// The softmax over a destination's edges, head by head, and its way back. What belongs
// to an edge or a row has its heads next to each other.
#include "common.cuh"

__device__ __forceinline__ float leaky(float v, float slope) { return v > 0 ? v : v * slope; }

// weights[e,h] = softmax over the edges e of row i of leaky(sources[s,h] + own[i,h]).
// A block's x dimension takes heads.
extern "C" __global__ void edge_softmax(float *weights, const float *sources, const float *own, i64 heads, float slope, const u32 *indptr,
                                        const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float mine = own[i * heads + h], top = -INFINITY, sum = 0;
		for (u32 e = from; e < to; e++) {
			float v = leaky(sources[indices[e] * heads + h] + mine, slope);
			weights[e * heads + h] = v;
			top = v > top ? v : top;
		}
		for (u32 e = from; e < to; e++) {
			float v = expf(weights[e * heads + h] - top);
			weights[e * heads + h] = v;
			sum += v;
		}
		float inverse = 1 / sum;
		for (u32 e = from; e < to; e++)
			weights[e * heads + h] *= inverse;
	}
}

// grads[e,h] = the gradient of the score before leaky, where grads held that of the
// weight; own_grads[i,h] = the sum over the edges of row i.
extern "C" __global__ void edge_softmax_backward(float *grads, float *own_grads, const float *weights, const float *sources, const float *own,
                                                 i64 heads, float slope, const u32 *indptr, const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float mine = own[i * heads + h], along = 0, sum = 0;
		for (u32 e = from; e < to; e++)
			along += weights[e * heads + h] * grads[e * heads + h];
		for (u32 e = from; e < to; e++) {
			float g = weights[e * heads + h] * (grads[e * heads + h] - along);
			if (!(sources[indices[e] * heads + h] + mine > 0))
				g *= slope;
			grads[e * heads + h] = g;
			sum += g;
		}
		own_grads[i * heads + h] = sum;
	}
}

// out[s,h] = the sum of values[e,h] over the edges e that edges lists for row s.
extern "C" __global__ void sum_edges(float *out, const float *values, i64 heads, const u32 *indptr, const u32 *edges, const u32 *at,
                                     i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float sum = 0;
		for (u32 e = indptr[i]; e < indptr[i + 1]; e++)
			sum += values[(i64)edges[e] * heads + h];
		out[i * heads + h] = sum;
	}
}
