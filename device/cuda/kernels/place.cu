// Rows to places in a table and out of pages, as they are.
#include "common.cuh"

template <int N> struct alignas(2 * N) Halves {
	unsigned short v[N];
};

// table[index[i]] = rows[i]. Rows are row_bytes apart, an even number. Those of the table
// from near on are far's. No index comes twice.
template <int N>
__device__ __forceinline__ void place_body(unsigned char *table, unsigned char *far, i64 near, const unsigned char *rows, i64 row_bytes,
                                           const u32 *index, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	i64 to = index[i];
	unsigned char *row = to < near ? table + to * row_bytes : far + (to - near) * row_bytes;
	for (i64 c = (i64)threadIdx.x * N; c < row_bytes / 2; c += blockDim.x * N)
		*(Halves<N> *)(row + 2 * c) = *(const Halves<N> *)(rows + i * row_bytes + 2 * c);
}

#define PARAMETERS \
	unsigned char *table, unsigned char *far, i64 near, const unsigned char *rows, i64 row_bytes, const u32 *index, const u32 *at, i64 most
#define ARGUMENTS table, far, near, rows, row_bytes, index, at, most

BOTH(place, LIST(PARAMETERS), LIST(ARGUMENTS))

// out[i] = row_bytes bytes of source from from[i] on; both are even numbers.
template <int N>
__device__ __forceinline__ void extract_body(unsigned char *out, const unsigned char *source, i64 row_bytes, const unsigned long long *from, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	const unsigned char *row = source + from[i];
	for (i64 c = (i64)threadIdx.x * N; c < row_bytes / 2; c += blockDim.x * N)
		*(Halves<N> *)(out + i * row_bytes + 2 * c) = *(const Halves<N> *)(row + 2 * c);
}

BOTH(extract, LIST(unsigned char *out, const unsigned char *source, i64 row_bytes, const unsigned long long *from, const u32 *at, i64 most),
     LIST(out, source, row_bytes, from, at, most))
