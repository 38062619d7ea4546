// Sums of rows over the edges of a block.
#pragma once

#include "common.cuh"

#define NOBODY 0xffffffffu

template <int N> __device__ __forceinline__ void add(Floats<N> &sum, float w, const Floats<N> &row) {
	for (int n = 0; n < N; n++)
		sum.v[n] += w * row.v[n];
}

// Adds to sum the rows of x, stride apart, that index names from one place to another, in
// that order, each times its weight: N columns from c on.
template <int N>
__device__ __forceinline__ void add_rows(Floats<N> &sum, const float *x, i64 stride, i64 c, const u32 *index, u32 from, u32 to,
                                         const float *weights) {
	u32 e = from;
	// The rows of four edges are on their way at once.
	for (; e + 4 <= to; e += 4) {
		Floats<N> row[4];
		float w[4];
#pragma unroll
		for (int k = 0; k < 4; k++) {
			u32 s = index[e + k];
			row[k] = load<N>(x + s * stride + c);
			w[k] = weights ? weights[s] : 1;
		}
#pragma unroll
		for (int k = 0; k < 4; k++)
			add<N>(sum, w[k], row[k]);
	}
	// And those of the three that may be left.
	Floats<N> row[3];
	float w[3];
#pragma unroll
	for (int k = 0; k < 3; k++)
		if (e + k < to) {
			u32 s = index[e + k];
			row[k] = load<N>(x + s * stride + c);
			w[k] = weights ? weights[s] : 1;
		}
#pragma unroll
	for (int k = 0; k < 3; k++)
		if (e + k < to)
			add<N>(sum, w[k], row[k]);
}

// Where a row has its own place and with what factor it counts; none: NOBODY.
struct Own {
	u32 place;
	float factor;
};

// The own place of row i, a destination: place[i], or i without place; its factor is
// own[i]. Transposed, a source's: place[i] − 1, or without place i where it is below the
// number of destinations; its factor lies at the same place.
template <bool transposed>
__device__ __forceinline__ Own own_place(i64 i, const float *own, const u32 *place, const u32 *places_at, i64 places) {
	Own o = {NOBODY, 1};
	if (!transposed)
		o.place = place ? place[i] : (u32)i;
	else if (place)
		o.place = place[i] - 1;
	else if (i < rows_of(places_at, places))
		o.place = (u32)i;
	if (o.place != NOBODY && own)
		o.factor = own[transposed ? o.place : i];
	return o;
}
