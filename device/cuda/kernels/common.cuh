// What the kernels share. They are compiled without fusing products and sums, so that
// they give the bits of their twins in package plain, operation by operation.
//
// A block's x dimension walks a row, its y dimension takes rows. Kernels that end in
// 4 move four floats at a time: widths and strides are multiples of four, addresses
// of 16 bytes.
#pragma once

typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

// The row that a thread is about.
__device__ __forceinline__ i64 this_row() { return (i64)blockIdx.x * blockDim.y + threadIdx.y; }

// How many rows there are: what lies in device memory, if anything does, up to most.
__device__ __forceinline__ i64 rows_of(const u32 *at, i64 most) { return at && *at < most ? *at : most; }

// The leaky ReLU of a score.
__device__ __forceinline__ float leaky(float v, float slope) { return v > 0 ? v : v * slope; }

// Some floats of a row, next to each other.
template <int N> struct alignas(4 * N) Floats {
	float v[N];
};

template <int N> __device__ __forceinline__ Floats<N> load(const float *p) { return *(const Floats<N> *)p; }
template <int N> __device__ __forceinline__ void store(float *p, const Floats<N> &f) { *(Floats<N> *)p = f; }

// Both widths of a kernel whose body is name_body<N>(arguments).
#define BOTH(name, parameters, arguments) \
	extern "C" __global__ void name(parameters) { name##_body<1>(arguments); } \
	extern "C" __global__ void name##4(parameters) { name##_body<4>(arguments); }
#define LIST(...) __VA_ARGS__
