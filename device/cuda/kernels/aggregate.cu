// Weighted sums of rows over the edges of a block, and the same transposed.
#include "sum.cuh"

// out[i] = outer[i] · Σ inner[s]·x[s] over the edges of row i, plus what out holds if
// add, plus own·own_x of the row's own place, if own_x is not null. Weights that are
// null stand for ones. If beside, the own row is not added but stored after the sum.
// If pad, rows of out beyond the count become zero.
//
// Forward, rows are destinations; transposed, sources. Rows of out are stride floats
// apart, those of x and own_x gap.
template <int N, bool transposed>
__device__ __forceinline__ void aggregate(float *out, i64 stride, const float *x, i64 gap, i64 width, const u32 *indptr, const u32 *indices,
                                          const float *outer, const float *inner, const float *own,
                                          const float *own_x, const u32 *place, const u32 *places_at, i64 places, i64 add_out, i64 beside,
                                          i64 pad, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= most)
		return;
	out += i * stride;
	if (i >= rows_of(at, most)) {
		for (i64 c = (i64)threadIdx.x * N; pad && c < width; c += blockDim.x * N) {
			store<N>(out + c, Floats<N>{});
			if (beside)
				store<N>(out + width + c, Floats<N>{});
		}
		return;
	}
	u32 from = indptr[i], to = indptr[i + 1];
	float scale = outer ? outer[i] : 1;
	Own mine = {NOBODY, 1};
	if (own_x)
		mine = own_place<transposed>(i, own, place, places_at, places);
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = {}, row = {};
		if (mine.place != NOBODY)
			row = load<N>(own_x + mine.place * gap + c);
		add_rows<N>(sum, x, gap, c, indices, from, to, inner);
		for (int n = 0; n < N; n++)
			sum.v[n] *= scale;
		if (add_out) {
			Floats<N> had = load<N>(out + c);
			for (int n = 0; n < N; n++)
				sum.v[n] += had.v[n];
		}
		if (beside)
			store<N>(out + width + c, row);
		else if (mine.place != NOBODY)
			add<N>(sum, mine.factor, row);
		store<N>(out + c, sum);
	}
}

#define PARAMETERS \
	float *out, i64 stride, const float *x, i64 gap, i64 width, const u32 *indptr, const u32 *indices, const float *outer, const float *inner, \
	    const float *own, const float *own_x, const u32 *place, const u32 *places_at, i64 places, i64 add_out, i64 beside, i64 pad, \
	    const u32 *at, i64 most
#define ARGUMENTS \
	out, stride, x, gap, width, indptr, indices, outer, inner, own, own_x, place, places_at, places, add_out, beside, pad, at, most

template <int N> __device__ __forceinline__ void aggregate_body(PARAMETERS) { aggregate<N, false>(ARGUMENTS); }
template <int N> __device__ __forceinline__ void aggregate_transposed_body(PARAMETERS) { aggregate<N, true>(ARGUMENTS); }
BOTH(aggregate, LIST(PARAMETERS), LIST(ARGUMENTS))
BOTH(aggregate_transposed, LIST(PARAMETERS), LIST(ARGUMENTS))
