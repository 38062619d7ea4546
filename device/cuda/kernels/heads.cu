// Sums of rows that several heads weigh. What belongs to an edge or a row has its heads
// next to each other.
#include "common.cuh"

// Heads are gone through in groups, whose sums are in registers.
#define GROUP 4

// out[i,h] = Σ weights[e,h]·x[s] over the edges e of row i.
template <int N>
__device__ __forceinline__ void aggregate_heads_body(float *out, const float *x, i64 width, i64 heads, const float *weights, const u32 *indptr,
                                                     const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N)
		for (i64 h = 0; h < heads; h += GROUP) {
			Floats<N> sum[GROUP] = {};
#pragma unroll 4
			for (u32 e = from; e < to; e++) {
				Floats<N> row = load<N>(x + indices[e] * width + c);
				for (int k = 0; k < GROUP; k++) {
					float w = h + k < heads ? weights[e * heads + h + k] : 0;
					for (int n = 0; n < N; n++)
						sum[k].v[n] += w * row.v[n];
				}
			}
			for (int k = 0; k < GROUP && h + k < heads; k++)
				store<N>(out + (i * heads + h + k) * width + c, sum[k]);
		}
}

BOTH(aggregate_heads,
     LIST(float *out, const float *x, i64 width, i64 heads, const float *weights, const u32 *indptr, const u32 *indices, const u32 *at, i64 most),
     LIST(out, x, width, heads, weights, indptr, indices, at, most))

// out[s] = Σ Σ weights[edges[t],h]·y[indices[t],h] over the entries t of row s and the
// heads, in that order.
template <int N>
__device__ __forceinline__ void combine_heads_body(float *out, const float *y, i64 width, i64 heads, const float *weights, const u32 *indptr,
                                                   const u32 *indices, const u32 *edges, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = {};
		for (u32 t = from; t < to; t++) {
			const float *row = y + indices[t] * heads * width + c, *w = weights + edges[t] * heads;
#pragma unroll 4
			for (i64 h = 0; h < heads; h++) {
				Floats<N> part = load<N>(row + h * width);
				for (int n = 0; n < N; n++)
					sum.v[n] += w[h] * part.v[n];
			}
		}
		store<N>(out + i * width + c, sum);
	}
}

BOTH(combine_heads,
     LIST(float *out, const float *y, i64 width, i64 heads, const float *weights, const u32 *indptr, const u32 *indices, const u32 *edges,
          const u32 *at, i64 most),
     LIST(out, y, width, heads, weights, indptr, indices, edges, at, most))

// out[e,h] = x[s]·y[i,h] for the edges e of row i. A dot product is sixteen sums, one
// for the columns of each remainder by sixteen, added by halves: a block's x dimension
// is sixteen. Edges go in groups, which share what is read of y.
extern "C" __global__ void edge_dots(float *out, const float *x, const float *y, i64 width, i64 heads, const u32 *indptr, const u32 *indices,
                                     const u32 *at, i64 most) {
	i64 i = this_row(), rows = rows_of(at, most);
	u32 from = i < rows ? indptr[i] : 0, to = i < rows ? indptr[i + 1] : 0;
	u32 turns = (to - from + GROUP - 1) / GROUP;
	// The other half of the warp may have edges where this one has none.
	turns = max(turns, __shfl_xor_sync(0xffffffffu, turns, 16));
	for (u32 turn = 0; turn < turns; turn++) {
		u32 first = from + turn * GROUP;
		const float *row[GROUP];
		for (int j = 0; j < GROUP; j++) // beyond the last edge, the last one again
			row[j] = first < to ? x + indices[min(first + j, to - 1)] * width : x;
		for (i64 h = 0; h < heads; h += GROUP) {
			float sum[GROUP][GROUP] = {};
			if (first < to)
				for (i64 c = threadIdx.x; c < width; c += 16) {
					float v[GROUP];
					for (int j = 0; j < GROUP; j++)
						v[j] = row[j][c];
					for (int k = 0; k < GROUP; k++) {
						float w = h + k < heads ? y[(i * heads + h + k) * width + c] : 0;
						for (int j = 0; j < GROUP; j++)
							sum[j][k] += v[j] * w;
					}
				}
			for (int j = 0; j < GROUP; j++)
				for (int k = 0; k < GROUP; k++) {
					for (int d = 8; d > 0; d /= 2)
						sum[j][k] += __shfl_down_sync(0xffffffffu, sum[j][k], d, 16);
					if (threadIdx.x == 0 && first + j < to && h + k < heads)
						out[(i64)(first + j) * heads + h + k] = sum[j][k];
				}
		}
	}
}
