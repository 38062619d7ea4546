// The blocks of a batch, decoded from packed bits: see package graph/batchcodec. The results are
// those of the host, bit by bit, whatever the order in which threads run.
//
// Value i of an array has the bits i·width to (i+1)·width of its words. There is a word behind
// the last one. A block has a record of words, its shape, which the host has checked: the
// arrays lie where it says. The values are unchecked. Each is checked here before anything is
// indexed by it: a bit of the shape's word WRONG says which check failed, and a value within
// bounds takes its place.
//
// Prefix sums go over tiles of 1024. Each block adds up the sums of the tiles before its own.
//
// Transposed. Edges are counted by source; the count before an edge was added is its place among
// those of its source, in an order of arrival. Edges go to their places, and then each is moved to
// its rank among those of its source. That takes n² comparisons for a source of n edges, by n
// threads that read the same words.
#include "tiles.cuh"

// Words of a shape.
constexpr int SOURCES = 0, EDGES = 2, WRONG = 3; // the destinations are word 1
constexpr int COUNT_BITS = 4, SOURCE_BITS = 5, PLACE_BITS = 6; // widths; no PLACE_BITS: destinations are the first sources
constexpr int COUNTS_AT = 7, SOURCES_AT = 8, PLACES_AT = 9;	 // first words

// Bits of WRONG.
constexpr u32 WRONG_COUNTS = 1, WRONG_SOURCE = 2, WRONG_PLACE = 4, WRONG_TWICE = 8;

// Value i of an array.
__device__ __forceinline__ u32 value_of(const u32 *words, i64 i, u32 width) {
	u64 bit = (u64)i * width;
	const u32 *w = words + (bit >> 5);
	u64 pair = w[0] | (u64)w[1] << 32;
	return (u32)(pair >> (bit & 31)) & (~0u >> (32 - width));
}

__device__ __forceinline__ u32 count_of(const u32 *words, const u32 *shape, i64 i) {
	return value_of(words + shape[COUNTS_AT], i, shape[COUNT_BITS]);
}

// The sum of the tiles before this block's.
__device__ u64 tiles_before(const u64 *sums) {
	u64 part = 0, all;
	for (u32 t = threadIdx.x; t < blockIdx.x; t += TILE)
		part += sums[t];
	sum_before(part, all);
	return all;
}

// sums[t] = the edges of the destinations of tile t.
extern "C" __global__ void unpack_sums(u64 *sums, const u32 *words, const u32 *shape, const u32 *at, i64 most) {
	i64 i = this_element();
	u64 all;
	sum_before(i < rows_of(at, most) ? count_of(words, shape, i) : 0, all);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = all;
}

// indptr[i+1] = the edges of the destinations up to i, and means[i] = one over the edges of
// destination i, if there are means.
extern "C" __global__ void unpack_indptr(u32 *indptr, float *means, const u64 *sums, const u32 *words, u32 *shape, const u32 *at, i64 most) {
	i64 i = this_element(), rows = rows_of(at, most);
	bool mine = i < rows;
	u32 count = mine ? count_of(words, shape, i) : 0;
	u64 before = tiles_before(sums), all, sum = before + sum_before(count, all) + count;
	u32 edges = shape[EDGES];
	if (i == 0)
		indptr[0] = 0;
	if (mine) {
		indptr[i + 1] = sum < edges ? (u32)sum : edges;
		if (means)
			means[i] = count > 0 ? 1 / (float)count : 0;
	}
	if ((i == rows - 1 || rows == 0 && i == 0) && sum != edges)
		atomicOr(shape + WRONG, WRONG_COUNTS);
}

// indices[e] = the source of edge e.
extern "C" __global__ void unpack_sources(u32 *indices, const u32 *words, u32 *shape, const u32 *at, i64 most) {
	i64 e = this_element();
	if (e >= rows_of(at, most))
		return;
	u32 s = value_of(words + shape[SOURCES_AT], e, shape[SOURCE_BITS]);
	if (s >= shape[SOURCES]) {
		atomicOr(shape + WRONG, WRONG_SOURCE);
		s = 0;
	}
	indices[e] = s;
}

// positions[i] = where destination i lies among the sources; places, if there are, have its
// number plus one there, and were zero.
extern "C" __global__ void unpack_places(u32 *positions, u32 *places, const u32 *words, u32 *shape, const u32 *at, i64 most) {
	i64 i = this_element();
	if (i >= rows_of(at, most))
		return;
	u32 s = (u32)i;
	if (shape[PLACE_BITS] > 0) {
		s = value_of(words + shape[PLACES_AT], i, shape[PLACE_BITS]);
		if (s >= shape[SOURCES]) {
			atomicOr(shape + WRONG, WRONG_PLACE);
			s = 0;
		}
	}
	positions[i] = s;
	if (places && atomicCAS(places + s, 0, (u32)i + 1) != 0)
		atomicOr(shape + WRONG, WRONG_TWICE);
}

// What package prepare does with a degree.
__device__ __forceinline__ double root(u32 degree) { return sqrt((double)degree + 1); }

// weights[s] = 1/√(degree + 1) of source s, which is source positions[s] of the outermost block.
extern "C" __global__ void weigh_sources(float *weights, const u32 *degrees, const u32 *positions, const u32 *at, i64 most) {
	i64 s = this_element();
	if (s < rows_of(at, most))
		weights[s] = (float)(1 / root(degrees[positions ? positions[s] : s]));
}

// sums[i] and owns[i] = the weights of destination i's sum and of its own row, where it is source
// positions[i] of the outermost block.
extern "C" __global__ void weigh_destinations(float *sums, float *owns, const u32 *indptr, const u32 *degrees, const u32 *positions, const u32 *at, i64 most) {
	i64 i = this_element();
	if (i >= rows_of(at, most))
		return;
	u32 degree = degrees[positions[i]], edges = indptr[i + 1] - indptr[i];
	sums[i] = (float)((double)degree / ((double)(edges > 1 ? edges : 1) * root(degree)));
	owns[i] = (float)(1 / ((double)degree + 1));
}

// counts[i] = the edges of destination i that are not loops, and one. A block's x dimension is a
// warp, which takes a destination.
extern "C" __global__ void loop_counts(u32 *counts, const u32 *indptr, const u32 *indices, const u32 *positions, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 self = positions ? positions[i] : (u32)i, to = indptr[i + 1], kept = 1;
	for (u32 e = indptr[i]; e < to; e += WARP)
		kept += __popc(__ballot_sync(EVERYONE, e + threadIdx.x < to && indices[e + threadIdx.x] != self));
	if (threadIdx.x == 0)
		counts[i] = kept;
}

// The edges that are not loops, in their order, and a loop behind those of each destination.
extern "C" __global__ void loop_fill(u32 *looped, const u32 *starts, const u32 *indptr, const u32 *indices, const u32 *positions, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	u32 self = positions ? positions[i] : (u32)i, to = indptr[i + 1], out = starts[i];
	for (u32 e = indptr[i]; e < to; e += WARP) {
		bool mine = e + threadIdx.x < to;
		u32 s = mine ? indices[e + threadIdx.x] : self;
		u32 kept = __ballot_sync(EVERYONE, s != self);
		if (s != self)
			looped[out + __popc(kept & ((1u << threadIdx.x) - 1))] = s;
		out += __popc(kept);
	}
	if (threadIdx.x == 0)
		looped[out] = self;
}

// sums[t] = the sum of tile t of values.
extern "C" __global__ void scan_sums(u64 *sums, const u32 *values, const u32 *at, i64 most) {
	i64 i = this_element();
	u64 all;
	sum_before(i < rows_of(at, most) ? values[i] : 0, all);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = all;
}

// out[i] = the sum of the values before i, for each value and for the end; total, if there is
// one, becomes the sum of all.
extern "C" __global__ void scan(u32 *out, u32 *total, const u64 *sums, const u32 *values, const u32 *at, i64 most) {
	i64 i = this_element(), rows = rows_of(at, most);
	bool mine = i < rows;
	u32 value = mine ? values[i] : 0;
	u64 before = tiles_before(sums), all, sum = before + sum_before(value, all) + value;
	if (i == 0)
		out[0] = 0;
	if (mine)
		out[i + 1] = (u32)sum;
	if (total && (i == rows - 1 || rows == 0 && i == 0))
		*total = (u32)sum;
}

// arrivals[e] = the edges of e's source that were counted before it. counts were zero.
extern "C" __global__ void count_sources(u32 *counts, u32 *arrivals, const u32 *indices, const u32 *at, i64 most) {
	i64 e = this_element();
	if (e < rows_of(at, most))
		arrivals[e] = atomicAdd(counts + indices[e], 1);
}

// slots has the edges of each source, in the order of their arrival.
extern "C" __global__ void fill_slots(u32 *slots, const u32 *tindptr, const u32 *arrivals, const u32 *indices, const u32 *at, i64 most) {
	i64 e = this_element();
	if (e < rows_of(at, most))
		slots[tindptr[indices[e]] + arrivals[e]] = (u32)e;
}

// tindices has the destinations of each source's edges, and tedges, if there are any, the edges,
// both in the order of the edges. *destinations is how many there are.
extern "C" __global__ void rank_slots(u32 *tindices, u32 *tedges, const u32 *slots, const u32 *tindptr, const u32 *indices, const u32 *indptr, const u32 *destinations, const u32 *at, i64 most) {
	i64 i = this_element();
	if (i >= rows_of(at, most))
		return;
	u32 edge = slots[i], source = indices[edge], from = tindptr[source], to = tindptr[source + 1], rank = from;
	for (u32 k = from; k < to; k++)
		rank += slots[k] < edge;
	// The last destination whose edges begin at or before this one.
	u32 lo = 0;
	for (u32 n = *destinations; n > 1;) {
		u32 half = n / 2;
		if (indptr[lo + half] <= edge)
			lo += half;
		n -= half;
	}
	tindices[rank] = lo;
	if (tedges)
		tedges[rank] = edge;
}
