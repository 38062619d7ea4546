// The largest of each column over the edges of a block, and its way back.
#include "common.cuh"

#define NOBODY 0xffffffffu

template <int N> struct alignas(4 * N) Words {
	u32 v[N];
};

// out[i] = the largest of x's rows over the edges of row i, zeros if there are none;
// chosen, unless null, the source of each, the first of equals.
template <int N>
__device__ __forceinline__ void maximum_body(float *out, i64 stride, u32 *chosen, const float *x, i64 width, const u32 *indptr,
                                             const u32 *indices, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> best = {};
		Words<N> who;
		for (int n = 0; n < N; n++)
			who.v[n] = NOBODY;
#pragma unroll 4
		for (u32 e = from; e < to; e++) {
			u32 s = indices[e];
			Floats<N> row = load<N>(x + s * width + c);
			for (int n = 0; n < N; n++)
				if (e == from || row.v[n] > best.v[n]) {
					best.v[n] = row.v[n];
					who.v[n] = s;
				}
		}
		store<N>(out + i * stride + c, best);
		if (chosen)
			*(Words<N> *)(chosen + i * width + c) = who;
	}
}

BOTH(maximum, LIST(float *out, i64 stride, u32 *chosen, const float *x, i64 width, const u32 *indptr, const u32 *indices, const u32 *at, i64 most),
     LIST(out, stride, chosen, x, width, indptr, indices, at, most))

// out[s] = the sum, plus what out holds if add, of those columns of g's rows whose
// maximum was chosen from s, over the destinations that indices lists for s, ascending;
// one that is listed again counts once.
template <int N>
__device__ __forceinline__ void maximum_backward_body(float *out, const float *g, const u32 *chosen, i64 width, const u32 *indptr,
                                                      const u32 *indices, i64 add, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 from = indptr[i], to = indptr[i + 1];
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = {};
		if (add)
			sum = load<N>(out + i * width + c);
		u32 last = NOBODY;
		for (u32 e = from; e < to; e++) {
			u32 d = indices[e];
			if (d == last)
				continue;
			last = d;
			Floats<N> row = load<N>(g + d * width + c);
			Words<N> who = *(const Words<N> *)(chosen + d * width + c);
			for (int n = 0; n < N; n++)
				if (who.v[n] == i)
					sum.v[n] += row.v[n];
		}
		store<N>(out + i * width + c, sum);
	}
}

BOTH(maximum_backward,
     LIST(float *out, const float *g, const u32 *chosen, i64 width, const u32 *indptr, const u32 *indices, i64 add, const u32 *at, i64 most),
     LIST(out, g, chosen, width, indptr, indices, add, at, most))
