// Rows of a table, by index, widened to float32 on the way.
#include "common.cuh"
#include <cuda_fp16.h>

// A dtype reads N elements of a row of width elements, from column c on: a multiple of N.
struct Float32 {
	template <int N> static __device__ __forceinline__ Floats<N> read(const unsigned char *row, i64 c, i64 width) {
		return load<N>((const float *)row + c);
	}
};

template <int N> struct alignas(2 * N) Halves {
	unsigned short v[N];
};

struct Float16 {
	template <int N> static __device__ __forceinline__ Floats<N> read(const unsigned char *row, i64 c, i64 width) {
		Halves<N> h = *(const Halves<N> *)(row + 2 * c);
		Floats<N> f;
		for (int k = 0; k < N; k++)
			f.v[k] = __half2float(__ushort_as_half(h.v[k]));
		return f;
	}
};

struct BFloat16 {
	template <int N> static __device__ __forceinline__ Floats<N> read(const unsigned char *row, i64 c, i64 width) {
		Halves<N> h = *(const Halves<N> *)(row + 2 * c);
		Floats<N> f;
		for (int k = 0; k < N; k++)
			f.v[k] = __uint_as_float((u32)h.v[k] << 16);
		return f;
	}
};

// A row of int8 begins with its scale.
template <int N> struct alignas(N) Bytes {
	signed char v[N];
};

struct Int8 {
	template <int N> static __device__ __forceinline__ Floats<N> read(const unsigned char *row, i64 c, i64 width) {
		float scale = *(const float *)row;
		Bytes<N> b = *(const Bytes<N> *)(row + 4 + c);
		Floats<N> f;
		for (int k = 0; k < N; k++)
			f.v[k] = (float)b.v[k] * scale;
		return f;
	}
};

// A row of int4 begins with a float16 scale of every 32 elements, and zeros up to a multiple of four bytes. Elements of four
// bits follow, two to a byte.
struct Int4 {
	template <int N> static __device__ __forceinline__ Floats<N> read(const unsigned char *row, i64 c, i64 width) {
		float scale = __half2float(__ushort_as_half(*(const unsigned short *)(row + c / 32 * 2)));
		const unsigned char *codes = row + ((width + 31) / 32 * 2 + 3) / 4 * 4;
		u32 q = N == 4 ? *(const unsigned short *)(codes + c / 2) : codes[c / 2] >> c % 2 * 4;
		Floats<N> f;
		for (int k = 0; k < N; k++)
			f.v[k] = (float)((int)(q << (28 - 4 * k)) >> 28) * scale;
		return f;
	}
};

// out[i] = table[index[i]], or table[i] where there is no index. The table's rows are
// row_bytes apart, those of out stride floats. With far, rows from near on are its rows. With
// parts, row r of the others is row r / devices of parts[r % devices].
template <class T, int N>
__device__ __forceinline__ void gather(float *out, i64 stride, const unsigned char *table, const unsigned char *far, i64 near,
                                       i64 row_bytes, const unsigned char *const *parts, u32 devices, const u32 *index, i64 width, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	i64 from = index ? (i64)index[i] : i;
	const unsigned char *row;
	if (far && from >= near)
		row = far + (from - near) * row_bytes;
	else if (parts)
		row = parts[(u32)from % devices] + (i64)((u32)from / devices) * row_bytes;
	else
		row = table + from * row_bytes;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N)
		store<N>(out + i * stride + c, T::template read<N>(row, c, width));
}

#define PARAMETERS \
	float *out, i64 stride, const unsigned char *table, const unsigned char *far, i64 near, i64 row_bytes, \
		const unsigned char *const *parts, u32 devices, const u32 *index, i64 width, const u32 *at, i64 most
#define ARGUMENTS out, stride, table, far, near, row_bytes, parts, devices, index, width, at, most

#define GATHER(name, type) \
	template <int N> __device__ __forceinline__ void name##_body(PARAMETERS) { gather<type, N>(ARGUMENTS); } \
	BOTH(name, LIST(PARAMETERS), LIST(ARGUMENTS))

GATHER(gather_float32_, Float32)
GATHER(gather_float16_, Float16)
GATHER(gather_bfloat16_, BFloat16)
GATHER(gather_int8_, Int8)
GATHER(gather_int4_, Int4)
