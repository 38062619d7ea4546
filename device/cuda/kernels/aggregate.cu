// Weighted sums of rows over the edges of a block, and the same transposed.
#include "common.cuh"

// The sum of x's rows that index names, in that order, each times its weight.
template <int N>
__device__ __forceinline__ Floats<N> sum_rows(const float *x, i64 width, i64 c, const u32 *index, u32 from, u32 to, const float *weights) {
	Floats<N> sum = {};
	u32 e = from;
	// The rows of four edges are on their way at once.
	for (; e + 4 <= to; e += 4) {
		Floats<N> row[4];
		float w[4];
#pragma unroll
		for (int k = 0; k < 4; k++) {
			u32 s = index[e + k];
			row[k] = load<N>(x + s * width + c);
			w[k] = weights ? weights[s] : 1;
		}
#pragma unroll
		for (int k = 0; k < 4; k++)
			for (int n = 0; n < N; n++)
				sum.v[n] += w[k] * row[k].v[n];
	}
	for (; e < to; e++) {
		u32 s = index[e];
		Floats<N> row = load<N>(x + s * width + c);
		float w = weights ? weights[s] : 1;
		for (int n = 0; n < N; n++)
			sum.v[n] += w * row.v[n];
	}
	return sum;
}

// out[i] = outer[i] · Σ inner[s]·x[s] over the edges of row i, plus what out holds if
// add, plus own·own_x of the row's own place, if own_x is not null. Weights that are
// null stand for ones.
//
// Forward, rows are destinations: row i's own place is place[i], its factor own[i].
// Transposed, rows are sources, and have an own place if they are destinations: that
// of source i is place[i] − 1, or i where place is null and i below the number of
// destinations; its factor lies at the same place.
template <int N, bool transposed>
__device__ __forceinline__ void aggregate(float *out, i64 stride, const float *x, i64 width, const u32 *indptr, const u32 *indices,
                                          const float *outer, const float *inner, const float *own,
                                          const float *own_x, const u32 *place, const u32 *places_at, i64 places, i64 add, const u32 *at,
                                          i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	float scale = outer ? outer[i] : 1, factor = 1;
	i64 mine = -1;
	if (own_x) {
		if (!transposed)
			mine = place ? (i64)place[i] : i;
		else if (place)
			mine = (i64)place[i] - 1;
		else if (i < rows_of(places_at, places))
			mine = i;
		if (mine >= 0 && own)
			factor = own[transposed ? mine : i];
	}
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = sum_rows<N>(x, width, c, indices, from, to, inner);
		for (int n = 0; n < N; n++)
			sum.v[n] *= scale;
		if (add) {
			Floats<N> had = load<N>(out + i * stride + c);
			for (int n = 0; n < N; n++)
				sum.v[n] += had.v[n];
		}
		if (mine >= 0) {
			Floats<N> row = load<N>(own_x + mine * width + c);
			for (int n = 0; n < N; n++)
				sum.v[n] += factor * row.v[n];
		}
		store<N>(out + i * stride + c, sum);
	}
}

#define PARAMETERS \
	float *out, i64 stride, const float *x, i64 width, const u32 *indptr, const u32 *indices, const float *outer, const float *inner, \
	    const float *own, const float *own_x, const u32 *place, const u32 *places_at, i64 places, i64 add, const u32 *at, i64 most
#define ARGUMENTS out, stride, x, width, indptr, indices, outer, inner, own, own_x, place, places_at, places, add, at, most

template <int N> __device__ __forceinline__ void aggregate_body(PARAMETERS) { aggregate<N, false>(ARGUMENTS); }
template <int N> __device__ __forceinline__ void aggregate_transposed_body(PARAMETERS) { aggregate<N, true>(ARGUMENTS); }
BOTH(aggregate, LIST(PARAMETERS), LIST(ARGUMENTS))
BOTH(aggregate_transposed, LIST(PARAMETERS), LIST(ARGUMENTS))
