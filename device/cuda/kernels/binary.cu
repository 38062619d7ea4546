// Binary cross-entropy of logits, class by class, with its gradient.
#include "common.cuh"

// A warp to a row: g = (sigmoid(z) − target)·inverse, row_loss = the sum of the
// classes' losses, right = whether the signs of all logits are right. Class c's target
// is bit c % 8 of byte c / 8 of a row's targets. A label below zero has neither loss
// nor gradient.
extern "C" __global__ void binary_cross_entropy(float *g, double *row_loss, u32 *right, const float *z, i64 classes, const int *labels,
                                                const unsigned char *targets, const float *inverse, const u32 *at, i64 most) {
	i64 i = this_row();
	if (i >= rows_of(at, most))
		return;
	int lane = threadIdx.x;
	bool labelled = labels[i] >= 0, good = labelled;
	double sum = 0;
	for (i64 c = lane; c < classes; c += 32) {
		if (!labelled) {
			g[i * classes + c] = 0;
			continue;
		}
		double x = z[i * classes + c];
		bool target = targets[i * ((classes + 7) / 8) + c / 8] >> (c % 8) & 1;
		double e = exp(-fabs(x)), p = 1 / (1 + e);
		if (x < 0)
			p = e / (1 + e);
		double l = (x < 0 ? -x : 0) + log1p(e); // log(1 + exp(−x))
		if (target)
			p--;
		else
			l += x;
		g[i * classes + c] = (float)p * *inverse;
		sum += l;
		good = good && target == (x > 0);
	}
	for (int d = 16; d > 0; d /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, d);
	good = __all_sync(0xffffffffu, good);
	if (lane == 0) {
		row_loss[i] = sum;
		right[i] = good;
	}
}
