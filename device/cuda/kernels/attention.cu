// The softmax over a destination's edges, head by head, and its way back. What belongs
// to an edge or a row has its heads next to each other. Scores lie by source: for every
// head a source's part of its edges' scores, then its part as a destination. place says
// where a destination lies among the sources; where it is null, they come first.
//
// In a typed graph a row is a destination and a relation. Scores have columns for every
// relation's heads: a row's begin at base[row]. The destinations' parts lie by row.
#include "sum.cuh"

// The destination's parts of the scores.
__device__ __forceinline__ const float *own_scores(const float *scores, i64 heads, const u32 *place, i64 i) {
	return scores + ((place ? place[i] : i) * 2 + 1) * heads;
}

// Edges whose reads are on their way at once: so many are read, then written.
#define TURN 4
#define EACH_EDGE(what) \
	_Pragma("unroll") for (int k = 0; k < TURN; k++) if (e + k < to) { what; }

// The softmax over the edges from to to of a row. Rows of scores are stride apart.
// A block's x dimension takes heads.
__device__ __forceinline__ void softmax(float *weights, const float *scores, i64 stride, const float *own, i64 heads, float slope,
                                        const u32 *indices, u32 from, u32 to) {
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float mine = own[h], top = -INFINITY, sum = 0;
		for (u32 e = from; e < to; e += TURN) {
			float v[TURN];
			EACH_EDGE(v[k] = scores[indices[e + k] * stride + h])
			EACH_EDGE(v[k] = leaky(v[k] + mine, slope); top = v[k] > top ? v[k] : top; weights[(e + k) * heads + h] = v[k])
		}
		for (u32 e = from; e < to; e += TURN) {
			float v[TURN];
			EACH_EDGE(v[k] = weights[(e + k) * heads + h])
			EACH_EDGE(v[k] = expf(v[k] - top); sum += v[k]; weights[(e + k) * heads + h] = v[k])
		}
		float inverse = 1 / sum;
		for (u32 e = from; e < to; e += TURN) {
			float v[TURN];
			EACH_EDGE(v[k] = weights[(e + k) * heads + h])
			EACH_EDGE(weights[(e + k) * heads + h] = v[k] * inverse)
		}
	}
}

// weights[e,h] = softmax over the edges e of row i of leaky(s's part + i's).
extern "C" __global__ void edge_softmax(float *weights, const float *scores, const u32 *place, i64 heads, float slope, const u32 *indptr,
                                        const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i < rows_of(at, most))
		softmax(weights, scores, 2 * heads, own_scores(scores, heads, place, i), heads, slope, indices, indptr[i], indptr[i + 1]);
}

// Likewise of a typed graph: rows of scores have columns for all relations.
extern "C" __global__ void relation_softmax(float *weights, const float *scores, i64 columns, const u32 *base, const float *own, i64 heads, float slope,
                                            const u32 *indptr, const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i < rows_of(at, most))
		softmax(weights, scores + base[i], columns, own + i * heads, heads, slope, indices, indptr[i], indptr[i + 1]);
}

// The way back of the softmax over a row: see edge_softmax_backward.
__device__ __forceinline__ void softmax_backward(float *grads, float *own_grads, const float *weights, const float *scores, i64 stride, const float *own,
                                                 i64 heads, float slope, const u32 *indices, u32 from, u32 to) {
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float mine = own[h], along = 0, sum = 0;
#pragma unroll 4
		for (u32 e = from; e < to; e++)
			along += weights[e * heads + h] * grads[e * heads + h];
		for (u32 e = from; e < to; e += TURN) {
			float w[TURN], g[TURN], score[TURN];
			EACH_EDGE(w[k] = weights[(e + k) * heads + h]; g[k] = grads[(e + k) * heads + h]; score[k] = scores[indices[e + k] * stride + h])
			EACH_EDGE(g[k] = w[k] * (g[k] - along); if (!(score[k] + mine > 0)) g[k] *= slope; sum += g[k]; grads[(e + k) * heads + h] = g[k])
		}
		own_grads[h] = sum;
	}
}

// grads[e,h] = the gradient of the score before leaky, where grads held that of the
// weight; own_grads[i,h] = the sum over the edges of row i.
extern "C" __global__ void edge_softmax_backward(float *grads, float *own_grads, const float *weights, const float *scores, const u32 *place,
                                                 i64 heads, float slope, const u32 *indptr, const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i < rows_of(at, most))
		softmax_backward(grads, own_grads + i * heads, weights, scores, 2 * heads, own_scores(scores, heads, place, i), heads, slope, indices, indptr[i],
		                 indptr[i + 1]);
}

extern "C" __global__ void relation_softmax_backward(float *grads, float *own_grads, const float *weights, const float *scores, i64 columns,
                                                     const u32 *base, const float *own, i64 heads, float slope, const u32 *indptr, const u32 *indices,
                                                     const u32 *at, i64 most) {
	i64 i = this_row();
	if (i < rows_of(at, most))
		softmax_backward(grads, own_grads + i * heads, weights, scores + base[i], columns, own + i * heads, heads, slope, indices, indptr[i],
		                 indptr[i + 1]);
}

// out[s,c] = the sum of values[e,h] over the edges e that edges lists for source s, of
// the rows with the column c: base[row] + h. rows lists the row of every edge.
extern "C" __global__ void sum_relation_edges(float *out, i64 columns, const float *values, i64 heads, const u32 *indptr, const u32 *edges,
                                              const u32 *rows, const u32 *base, const u32 *at, i64 most) {
	i64 s = this_row();
	if (s >= rows_of(at, most))
		return;
	u32 from = indptr[s], to = indptr[s + 1];
	for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
		i64 h = c % heads, first = c - h;
		float sum = 0;
		for (u32 e = from; e < to; e++)
			if (base[rows[e]] == first)
				sum += values[(i64)edges[e] * heads + h];
		out[s * columns + c] = sum;
	}
}

// The gradients of the scores: of row s, the sum of values[e,h] over the edges e that
// edges lists for it, and behind them own[i,h] where it is destination i, zero where it
// is none. place is that of the transposed block: i + 1, or 0. Rows beyond the count
// become zero.
template <int N>
__device__ __forceinline__ void sum_edges_body(float *out, const float *values, const float *own, i64 heads, const u32 *indptr,
                                               const u32 *edges, const u32 *place, const u32 *places_at, i64 places, const u32 *at, i64 most) {
	i64 s = this_row();
	if (s >= most)
		return;
	out += s * 2 * heads;
	bool there = s < rows_of(at, most);
	u32 from = there ? indptr[s] : 0, to = there ? indptr[s + 1] : 0, mine = NOBODY;
	if (there)
		mine = own_place<true>(s, nullptr, place, places_at, places).place;
	for (i64 h = threadIdx.x * N; h < 2 * heads; h += blockDim.x * N) {
		Floats<N> sum = {};
		if (h < heads) {
#pragma unroll 4
			for (u32 e = from; e < to; e++) {
				Floats<N> v = load<N>(values + (i64)edges[e] * heads + h);
				for (int n = 0; n < N; n++)
					sum.v[n] += v.v[n];
			}
		} else if (mine != NOBODY) {
			sum = load<N>(own + mine * heads + h - heads);
		}
		store<N>(out + h, sum);
	}
}

BOTH(sum_edges,
     LIST(float *out, const float *values, const float *own, i64 heads, const u32 *indptr, const u32 *edges, const u32 *place,
          const u32 *places_at, i64 places, const u32 *at, i64 most),
     LIST(out, values, own, heads, indptr, edges, place, places_at, places, at, most))
