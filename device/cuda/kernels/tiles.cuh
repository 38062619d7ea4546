// Sums over tiles of 1024 elements: a block takes a tile.
#pragma once
#include "common.cuh"

constexpr int TILE = 1024;
constexpr int WARP = 32;
constexpr u32 EVERYONE = ~0u;

// The element of a thread, where a block takes a tile.
__device__ __forceinline__ i64 this_element() { return (i64)blockIdx.x * TILE + threadIdx.x; }

// The sum of the values of the threads before this one in the block; all is the sum of all.
__device__ u64 sum_before(u64 value, u64 &all) {
	__shared__ u64 warps[TILE / WARP];
	int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
	u64 sum = value;
	for (int d = 1; d < WARP; d *= 2) {
		u64 other = __shfl_up_sync(EVERYONE, sum, d);
		if (lane >= d)
			sum += other;
	}
	if (lane == WARP - 1)
		warps[warp] = sum;
	__syncthreads();
	if (warp == 0) {
		u64 mine = warps[lane];
		for (int d = 1; d < WARP; d *= 2) {
			u64 other = __shfl_up_sync(EVERYONE, mine, d);
			if (lane >= d)
				mine += other;
		}
		warps[lane] = mine;
	}
	__syncthreads();
	u64 before = sum - value + (warp > 0 ? warps[warp - 1] : 0);
	all = warps[TILE / WARP - 1];
	__syncthreads(); // the next call writes them
	return before;
}
