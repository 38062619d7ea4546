// Dropout's draws, activations and their gradients.
#pragma once

#include "common.cuh"

enum Activation { NONE, RELU, ELU };

__device__ __forceinline__ u64 mix64(u64 x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// The key of a row's dropout, and the draw of one of its columns.
__device__ __forceinline__ u64 row_key(u64 stream, u64 row) { return mix64(stream + row * 0x9e3779b97f4a7c15ull); }

__device__ __forceinline__ u32 draw(u64 key, u32 column) {
	u32 x = (u32)key + column * 0x9e3779b9u;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x += (u32)(key >> 32);
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

// exp(v) for v ≤ 0, as package kernel computes it.
__device__ __forceinline__ float exp_of(float v) {
	const float round = 3 << 22;
	v = v < -86 ? -86 : v;
	float t = v * 1.44269504088896340736f + round;
	float n = t - round;
	float power = __uint_as_float((__float_as_uint(t) + 127) << 23);
	v -= n * 0.693359375f;
	v -= n * -2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * v + 1.3981999507e-3f;
	p = p * v + 8.3334519073e-3f;
	p = p * v + 4.1665795894e-2f;
	p = p * v + 1.6666665459e-1f;
	p = p * v + 5.0000001201e-1f;
	return (p * (v * v) + v + 1) * power;
}

// The gradient of z, of one element of a row, where g is that of what finish made of it, h.
template <Activation A> __device__ __forceinline__ float undo(float g, float h, u64 key, u32 column, u32 threshold, float scale) {
	if (A == RELU)
		return h > 0 ? g * scale : 0;
	if (A == ELU) {
		g *= (h < 0 ? h : 0) + scale;
		if (threshold && draw(key, column) < threshold)
			return 0;
	}
	return g;
}

// Adds up the sums of a group of rows that the eight warps of a block have, in order,
// and stores them. Every thread has those of N columns from c on.
template <int N> __device__ __forceinline__ void store_group(float *sums, i64 width, i64 c, Floats<N> sum) {
	__shared__ Floats<N> partial[8][32];
	partial[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y != 0 || c >= width)
		return;
	for (int k = 1; k < 8; k++)
		for (int n = 0; n < N; n++)
			sum.v[n] += partial[k][threadIdx.x].v[n];
	store<N>(sums + blockIdx.x * width + c, sum);
}
