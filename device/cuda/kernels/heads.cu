// Sums of rows that several heads weigh. What belongs to an edge or a row has its heads
// next to each other.
#include "common.cuh"

// Heads are gone through in groups, whose sums are in registers: MANY where there are
// more than GROUP.
#define GROUP 4
#define MANY 8

// The first column of a thread: a block's x index walks the row, the grid's y index goes
// on where blocks end.
__device__ __forceinline__ i64 first_column(int n) { return ((i64)blockIdx.y * blockDim.x + threadIdx.x) * n; }

// The weights of an edge's heads from the first on, zeros beyond the last.
template <int G> __device__ __forceinline__ void load_weights(float w[G], const float *weights, i64 heads) {
	if (heads >= G && heads % 4 == 0) {
#pragma unroll
		for (int k = 0; k < G; k += 4) {
			Floats<4> f = load<4>(weights + k);
			for (int n = 0; n < 4; n++)
				w[k + n] = f.v[n];
		}
		return;
	}
#pragma unroll
	for (int k = 0; k < G; k++)
		w[k] = k < heads ? weights[k] : 0;
}

// out[i,h] = Σ weights[e,h]·x[s] over the edges e of row i.
template <int N, int G>
__device__ __forceinline__ void aggregate_heads(float *out, const float *x, i64 width, i64 heads, const float *weights, const u32 *indices,
                                                u32 from, u32 to, i64 c) {
	for (i64 h = 0; h < heads; h += G) {
		Floats<N> sum[G] = {};
#pragma unroll 4
		for (u32 e = from; e < to; e++) {
			Floats<N> row = load<N>(x + indices[e] * width + c);
			float w[G];
			load_weights<G>(w, weights + e * heads + h, heads - h);
#pragma unroll
			for (int k = 0; k < G; k++)
				for (int n = 0; n < N; n++)
					sum[k].v[n] += w[k] * row.v[n];
		}
#pragma unroll
		for (int k = 0; k < G; k++)
			if (h + k < heads)
				store<N>(out + (h + k) * width + c, sum[k]);
	}
}

template <int N>
__device__ __forceinline__ void aggregate_heads_body(float *out, const float *x, i64 width, i64 heads, const float *weights, const u32 *indptr,
                                                     const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row(), c = first_column(N);
	if (i >= rows_of(at, most) || c >= width)
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	out += i * heads * width;
	if (heads > GROUP)
		aggregate_heads<N, MANY>(out, x, width, heads, weights, indices, from, to, c);
	else
		aggregate_heads<N, GROUP>(out, x, width, heads, weights, indices, from, to, c);
}

BOTH(aggregate_heads,
     LIST(float *out, const float *x, i64 width, i64 heads, const float *weights, const u32 *indptr, const u32 *indices, const u32 *at, i64 most),
     LIST(out, x, width, heads, weights, indptr, indices, at, most))

// out[s] = Σ Σ weights[edges[t],h]·y[indices[t],h] over the entries t of row s and the
// heads, in that order.
template <int N>
__device__ __forceinline__ void combine_heads_body(float *out, const float *y, i64 width, i64 heads, const float *weights, const u32 *indptr,
                                                   const u32 *indices, const u32 *edges, const u32 *at, i64 most) {
	i64 i = this_row(), c = first_column(N);
	if (i >= rows_of(at, most) || c >= width)
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	Floats<N> sum = {};
	u32 d = from < to ? indices[from] : 0, e = from < to ? edges[from] : 0;
	for (u32 t = from; t < to; t++) {
		const float *row = y + d * heads * width + c, *w = weights + e * heads;
		if (t + 1 < to) { // where to go next is on its way while this entry is summed
			d = indices[t + 1];
			e = edges[t + 1];
		}
		for (i64 h = 0; h < heads; h += MANY) {
			Floats<N> part[MANY];
			float v[MANY];
			load_weights<MANY>(v, w + h, heads - h);
#pragma unroll
			for (int k = 0; k < MANY; k++)
				if (h + k < heads)
					part[k] = load<N>(row + (h + k) * width);
#pragma unroll
			for (int k = 0; k < MANY; k++)
				if (h + k < heads)
					for (int n = 0; n < N; n++)
						sum.v[n] += v[k] * part[k].v[n];
		}
	}
	store<N>(out + i * width + c, sum);
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

// The same for rows whose columns go four at a time: a warp to a destination, four lanes
// to an edge, each with four of the sixteen sums of every head. In the end lanes swap the
// sums of heads that the other one finishes.
extern "C" __global__ void edge_dots4(float *out, const float *x, const float *y, i64 width, i64 heads, const u32 *indptr, const u32 *indices,
                                      const u32 *at, i64 most) {
	const u32 all = 0xffffffffu;
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 to = indptr[i + 1];
	int q = threadIdx.x % 4;
	for (u32 first = indptr[i]; first < to; first += 8) {
		u32 e = first + threadIdx.x / 4;
		const float *row = x + indices[min(e, to - 1)] * width; // beyond the last edge, the last one again
		for (i64 h = 0; h < heads; h += MANY) {
			const float *mine = y + (i * heads + h) * width;
			Floats<4> sum[MANY] = {};
#pragma unroll 2
			for (i64 c = 4 * q; c < width; c += 16) {
				Floats<4> v = load<4>(row + c);
#pragma unroll
				for (int k = 0; k < MANY; k++) {
					if (h + k >= heads)
						break;
					Floats<4> w = load<4>(mine + k * width + c);
					for (int n = 0; n < 4; n++)
						sum[k].v[n] += v.v[n] * w.v[n];
				}
			}
			// Lanes 0 and 1 go on with the first half of the heads, 2 and 3 with the second.
			bool upper = q & 2, odd = q & 1;
#pragma unroll
			for (int k = 0; k < MANY / 2; k++)
				for (int n = 0; n < 4; n++) {
					float given = __shfl_xor_sync(all, upper ? sum[k].v[n] : sum[k + MANY / 2].v[n], 2);
					sum[k].v[n] = (upper ? sum[k + MANY / 2].v[n] : sum[k].v[n]) + given;
				}
#pragma unroll
			for (int k = 0; k < MANY / 4; k++) {
				for (int n = 0; n < 4; n++) {
					float given = __shfl_xor_sync(all, odd ? sum[k].v[n] : sum[k + MANY / 4].v[n], 1);
					sum[k].v[n] = (odd ? sum[k + MANY / 4].v[n] : sum[k].v[n]) + given;
				}
				i64 head = h + 2 * q + k;
				if (e < to && head < heads)
					out[(i64)e * heads + head] = (sum[k].v[0] + sum[k].v[2]) + (sum[k].v[1] + sum[k].v[3]);
			}
		}
	}
}
