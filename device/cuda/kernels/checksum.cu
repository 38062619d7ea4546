// CRC-32C of ranges of memory. A CRC without its initial value and its complements is
// linear: the sum (exclusive or) of the words of a message, each times x to the number
// of bits from it to the message's end, modulo the polynomial. So a block's threads
// take the words of a range in turns, each multiplies its sum by the power of x between
// its words, and in the end the sums are brought to the range's end and added. Bits are
// reflected, as CRC-32C has them: bit 31 is the coefficient of 1.
#include "common.cuh"

constexpr u32 POLYNOMIAL = 0x82F63B78;
constexpr u32 ONE = 0x80000000;
constexpr int THREADS = 256;
constexpr int UNIT = 16; // bytes that a thread reads at once

// a times x.
constexpr __host__ __device__ u32 twice(u32 a) { return (a >> 1) ^ ((a & 1) ? POLYNOMIAL : 0); }

// a divided by x.
constexpr u32 half(u32 a) { return a & ONE ? ((a ^ POLYNOMIAL) << 1) | 1 : a << 1; }

// a times b.
constexpr __host__ __device__ u32 product(u32 a, u32 b) {
	u32 p = 0;
	for (int i = 0; i < 32; i++) {
		p ^= (b & ONE) ? a : 0;
		b <<= 1;
		a = twice(a);
	}
	return p;
}

// x to the power of 8 times so many bytes.
constexpr u32 shift(int bytes) {
	u32 p = ONE;
	for (int i = 0; i < 8 * bytes; i++)
		p = twice(p);
	return p;
}

// A table multiplies a word by a constant, byte by byte of the word.
typedef u32 Table[4][256];

struct Constants {
	Table stride;       // a whole turn of the block's threads
	Table word;         // 4 bytes
	u32 behind[THREADS]; // so many units
	u32 start[UNIT];    // what becomes the initial value after so many zero bytes
};

constexpr void fill(Table &t, u32 by) {
	for (int k = 0; k < 4; k++) {
		t[k][0] = 0;
		for (int i = 0; i < 8; i++) {
			u32 p = product(by, 1u << (8 * k + i));
			for (int b = 0; b < 1 << i; b++)
				t[k][(1 << i) + b] = t[k][b] ^ p;
		}
	}
}

constexpr Constants make() {
	Constants c = {};
	u32 unit = shift(UNIT), at = ONE;
	for (int i = 0; i < THREADS; i++) {
		c.behind[i] = at;
		at = product(at, unit);
	}
	fill(c.stride, at);
	fill(c.word, shift(4));
	u32 start = ~0u;
	for (int i = 0; i < UNIT; i++) {
		c.start[i] = start;
		for (int k = 0; k < 8; k++)
			start = half(start);
	}
	return c;
}

__device__ const Constants constants = make();

__device__ __forceinline__ u32 times(const Table &t, u32 w) {
	return t[0][w & 255] ^ t[1][(w >> 8) & 255] ^ t[2][(w >> 16) & 255] ^ t[3][w >> 24];
}

struct alignas(UNIT) Unit {
	u32 w[4];
};

// The unit with its first bytes zero, and the word that stands for the initial value.
__device__ __forceinline__ Unit begun(Unit u, int zero, u32 start) {
	for (int k = 0; k < 4; k++) {
		int n = zero - 4 * k;
		u.w[k] &= n <= 0 ? ~0u : n >= 4 ? 0 : ~0u << (8 * n);
	}
	u.w[0] ^= start;
	return u;
}

// sums[i] = the CRC of ranges[2i+1] bytes from data + ranges[2i] on. A block takes one
// range after the other. Units are counted from the range's end, so that the last one
// of thread t is the t-th from there; the bytes behind the last whole unit, at a
// multiple of its size, are the first thread's.
extern "C" __global__ void checksum(u32 *sums, const unsigned char *data, const u64 *ranges, const u32 *at, i64 most) {
	__shared__ Table stride, word;
	__shared__ u32 partial[THREADS / 32];
	i64 rows = rows_of(at, most);
	int t = threadIdx.x;
	for (int i = t; i < 4 * 256; i += THREADS) {
		((u32 *)stride)[i] = ((const u32 *)constants.stride)[i];
		((u32 *)word)[i] = ((const u32 *)constants.word)[i];
	}
	u32 behind = constants.behind[t];
	__syncthreads();

	for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
		const unsigned char *from = data + ranges[2 * row], *end = from + ranges[2 * row + 1];
		int lead = (int)((u64)from % UNIT);
		const Unit *units = (const Unit *)(from - lead);
		i64 count = ((i64)((u64)end / UNIT) - (i64)((u64)from / UNIT));

		Unit sum = {};
		i64 turns = count > t ? (count - 1 - t) / THREADS + 1 : 0;
		i64 i = count - 1 - t - (turns - 1) * THREADS; // this thread's first unit
		if (turns > 0) {
			sum = units[i];
			if (i == 0)
				sum = begun(sum, lead, constants.start[lead]);
		}
#pragma unroll 4
		for (i64 turn = 1; turn < turns; turn++) {
			i += THREADS;
			Unit u = units[i];
			for (int k = 0; k < 4; k++)
				sum.w[k] = times(stride, sum.w[k]) ^ u.w[k];
		}
		u32 crc = 0;
		for (int k = 0; k < 4; k++)
			crc = times(word, crc ^ sum.w[k]);
		crc = product(crc, behind);

		for (int lanes = 16; lanes > 0; lanes /= 2)
			crc ^= __shfl_xor_sync(~0u, crc, lanes);
		if (t % 32 == 0)
			partial[t / 32] = crc;
		__syncthreads();
		if (t == 0) {
			for (int k = 1; k < THREADS / 32; k++)
				crc ^= partial[k];
			const unsigned char *tail = (const unsigned char *)(units + count);
			if (count == 0) {
				crc = ~0u;
				tail = from;
			}
			for (; tail < end; tail++)
				crc = (crc >> 8) ^ word[3][(crc ^ *tail) & 255];
			sums[row] = ~crc;
		}
		__syncthreads();
	}
}
