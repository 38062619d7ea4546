// Softmax cross-entropy with its gradient.
#include "common.cuh"

#define WHOLE 0xffffffffu

struct Best {
	float value;
	int at;
};

// The first of the largest among a warp's.
__device__ __forceinline__ Best best_of_warp(Best b) {
	for (int d = 16; d > 0; d /= 2) {
		float value = __shfl_xor_sync(WHOLE, b.value, d);
		int at = __shfl_xor_sync(WHOLE, b.at, d);
		if (value > b.value || (value == b.value && at < b.at))
			b = {value, at};
	}
	return b;
}

__device__ __forceinline__ double sum_of_warp(double v) {
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_xor_sync(WHOLE, v, d);
	return v;
}

// A warp to a row: g = (softmax(z) − target)·inverse, row_loss = −Σ target·log softmax,
// right = whether the label has the largest of z. The target is one at the label, but
// for what smoothing spreads over all classes. A label below zero has neither loss nor
// gradient.
extern "C" __global__ void cross_entropy(float *g, double *row_loss, u32 *right, const float *z, i64 classes, const int *labels,
                                         const float *inverse, double smoothing, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	int lane = threadIdx.x, label = labels[i];
	z += i * classes;
	g += i * classes;
	if (label < 0) {
		for (i64 c = lane; c < classes; c += 32)
			g[c] = 0;
		if (lane == 0) {
			row_loss[i] = 0;
			right[i] = 0;
		}
		return;
	}
	Best best = {z[0], 0};
	for (i64 c = lane; c < classes; c += 32)
		if (z[c] > best.value)
			best = {z[c], (int)c};
	best = best_of_warp(best);
	double sum = 0, all = 0;
	for (i64 c = lane; c < classes; c += 32) {
		double e = exp((double)(z[c] - best.value));
		g[c] = (float)e;
		sum += e;
		all += z[c];
	}
	sum = sum_of_warp(sum);
	all = sum_of_warp(all);
	float scale = (float)(1 / sum), share = (float)(smoothing / classes), whole = (float)(1 - smoothing);
	for (i64 c = lane; c < classes; c += 32) {
		float v = g[c] * scale;
		if (c == label)
			v -= whole;
		g[c] = (v - share) * *inverse;
	}
	if (lane == 0) {
		row_loss[i] = log(sum) - (double)(z[label] - best.value) + smoothing * ((double)z[label] - all / classes);
		right[i] = best.at == label;
	}
}

struct Score {
	double loss;
	u64 right;
};

// The sums of row_loss and right over rows: 256, one for the rows of each remainder by
// 256, added by halves. One block of 256.
extern "C" __global__ void sum_losses(Score *out, const double *row_loss, const u32 *right, const u32 *at, i64 most) {
	__shared__ Score partial[256];
	i64 rows = rows_of(at, most);
	int t = threadIdx.x;
	Score s = {};
	for (i64 i = t; i < rows; i += 256) {
		s.loss += row_loss[i];
		s.right += right[i];
	}
	partial[t] = s;
	for (int n = 128; n > 0; n /= 2) {
		__syncthreads();
		if (t < n) {
			partial[t].loss += partial[t + n].loss;
			partial[t].right += partial[t + n].right;
		}
	}
	if (t == 0)
		*out = partial[0];
}
