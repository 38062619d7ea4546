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

// out[e,h] = x[s]·y[i,h] for the edges e of row i. A warp takes a row: its lanes have four
// columns each, again and again, and their sums are added by halves. So one value for
// every lane is made of 32 of each: of four edges and eight heads.
#define EDGES 4

// Four columns of a row, zeros beyond its end.
template <int N> __device__ __forceinline__ Floats<4> columns_of(const float *row, i64 c, i64 width) {
	if constexpr (N == 4) {
		return load<4>(row + c);
	} else {
		Floats<4> f;
		for (int n = 0; n < 4; n++)
			f.v[n] = c + n < width ? row[c + n] : 0;
		return f;
	}
}

// Adds what lanes D apart have of 2·D values, and leaves D of them to each: the second
// half to lanes whose number has the bit D.
template <int D> __device__ __forceinline__ void halve(float *sum) {
	bool second = threadIdx.x & D;
#pragma unroll
	for (int k = 0; k < D; k++) {
		float mine = second ? sum[k + D] : sum[k], given = second ? sum[k] : sum[k + D];
		sum[k] = mine + __shfl_xor_sync(0xffffffffu, given, D);
	}
}

template <int N>
__device__ __forceinline__ void edge_dots_body(float *out, const float *x, const float *y, i64 width, i64 heads, const u32 *indptr,
                                               const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 to = indptr[i + 1];
	for (u32 first = indptr[i]; first < to; first += EDGES) {
		const float *row[EDGES];
#pragma unroll
		for (int j = 0; j < EDGES; j++) // beyond the last edge, the last one again
			row[j] = x + indices[min(first + j, to - 1)] * width;
		for (i64 h = 0; h < heads; h += MANY) {
			float sum[EDGES * MANY] = {};
			const float *mine = y + (i * heads + h) * width;
			for (i64 c = 4 * threadIdx.x; c < width; c += 128) {
				Floats<4> v[EDGES];
#pragma unroll
				for (int j = 0; j < EDGES; j++)
					v[j] = columns_of<N>(row[j], c, width);
#pragma unroll
				for (int k = 0; k < MANY; k++) {
					if (h + k >= heads)
						break;
					Floats<4> w = columns_of<N>(mine + k * width, c, width);
#pragma unroll
					for (int j = 0; j < EDGES; j++)
						for (int n = 0; n < 4; n++)
							sum[j * MANY + k] += v[j].v[n] * w.v[n];
				}
			}
			halve<16>(sum);
			halve<8>(sum);
			halve<4>(sum);
			halve<2>(sum);
			halve<1>(sum);
			u32 e = first + threadIdx.x / MANY;
			i64 head = h + threadIdx.x % MANY;
			if (e < to && head < heads)
				out[(i64)e * heads + head] = sum[0];
		}
	}
}

BOTH(edge_dots,
     LIST(float *out, const float *x, const float *y, i64 width, i64 heads, const u32 *indptr, const u32 *indices, const u32 *at, i64 most),
     LIST(out, x, y, width, heads, indptr, indices, at, most))
