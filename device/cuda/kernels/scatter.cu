// The way back through the sums over neighbours and through the tail of the layer below.
#include "sum.cuh"
#include "tail.cuh"

// Rows of a warp whose reads are on their way at once.
#define TURN 2

// What aggregate_transposed stores, taken back as backward_relu and backward_elu take it,
// in one pass: g is written once and not read. A warp has every eighth row of a group,
// 32 at a time: first every lane looks up where one row's edges are, then all lanes go
// through the rows. Most have one edge, whose row of x is read ahead.
template <int N, Activation A>
__device__ __forceinline__ void scatter(float *g, const float *x, i64 gap, i64 width, const u32 *indptr, const u32 *indices, const float *outer,
                                        const float *inner, const float *own, const float *own_x, const u32 *place, const u32 *places_at,
                                        i64 places, const float *y, float *sums, i64 group, const u64 *stream, const u32 *ids, u32 threshold,
                                        float scale, const u32 *at, i64 most) {
	const u32 all = 0xffffffffu;
	i64 rows = rows_of(at, most), last = min(((i64)blockIdx.x + 1) * group, most);
	i64 c = ((i64)blockIdx.y * 32 + threadIdx.x) * N;
	bool inside = c < width;
	Floats<N> total = {};
	for (i64 base = blockIdx.x * group + threadIdx.y; base < last; base += 8 * 32) {
		// Of the lane's row.
		i64 i = base + 8 * threadIdx.x;
		u32 from = 0, to = 0, head = 0;
		float factor = 1, weight = 1;
		Own mine = {NOBODY, 1};
		if (i < min(last, rows)) {
			from = indptr[i];
			to = indptr[i + 1];
			if (outer)
				factor = outer[i];
			if (own_x)
				mine = own_place<true>(i, own, place, places_at, places);
			if (from < to) {
				head = indices[from];
				if (inner)
					weight = inner[head];
			}
		}
		for (int turn = 0; turn < 32 && base + 8 * turn < last; turn += TURN) {
			Floats<N> kept[TURN], row[TURN];
			u32 begin[TURN], end[TURN];
#pragma unroll
			for (int k = 0; k < TURN; k++) {
				i64 i = base + 8 * (turn + k);
				begin[k] = __shfl_sync(all, from, turn + k);
				end[k] = __shfl_sync(all, to, turn + k);
				u32 s = __shfl_sync(all, head, turn + k);
				if (inside && i < min(last, rows)) {
					kept[k] = load<N>(y + i * width + c);
					if (begin[k] < end[k])
						row[k] = load<N>(x + s * gap + c);
				}
			}
#pragma unroll
			for (int k = 0; k < TURN; k++) {
				i64 i = base + 8 * (turn + k);
				float f = __shfl_sync(all, factor, turn + k), w = __shfl_sync(all, weight, turn + k), own_factor = __shfl_sync(all, mine.factor, turn + k);
				u32 at_own = __shfl_sync(all, mine.place, turn + k);
				if (!inside || i >= last)
					continue;
				Floats<N> sum = {};
				if (i < rows) {
					if (begin[k] < end[k]) {
						add<N>(sum, w, row[k]);
						add_rows<N>(sum, x, gap, c, indices, begin[k] + 1, end[k], inner);
					}
					for (int n = 0; n < N; n++)
						sum.v[n] *= f;
					if (at_own != NOBODY)
						add<N>(sum, own_factor, load<N>(own_x + at_own * gap + c));
					u64 key = A == ELU && threshold ? row_key(*stream, ids ? ids[i] : i) : 0;
					for (int n = 0; n < N; n++) {
						sum.v[n] = undo<A>(sum.v[n], kept[k].v[n], key, c + n, threshold, scale);
						total.v[n] += sum.v[n];
					}
				}
				store<N>(g + i * width + c, sum);
			}
		}
	}
	store_group<N>(sums, width, c, total);
}

#define PARAMETERS \
	float *g, const float *x, i64 gap, i64 width, const u32 *indptr, const u32 *indices, const float *outer, const float *inner, const float *own, \
	    const float *own_x, const u32 *place, const u32 *places_at, i64 places, const float *y, float *sums, i64 group, const u64 *stream, \
	    const u32 *ids, u32 threshold, float scale, const u32 *at, i64 most
#define ARGUMENTS \
	g, x, gap, width, indptr, indices, outer, inner, own, own_x, place, places_at, places, y, sums, group, stream, ids, threshold, scale, at, most

template <int N> __device__ __forceinline__ void scatter_relu_body(PARAMETERS) { scatter<N, RELU>(ARGUMENTS); }
template <int N> __device__ __forceinline__ void scatter_elu_body(PARAMETERS) { scatter<N, ELU>(ARGUMENTS); }
BOTH(scatter_relu, LIST(PARAMETERS), LIST(ARGUMENTS))
BOTH(scatter_elu, LIST(PARAMETERS), LIST(ARGUMENTS))
