// One step of Adam over all parameters.
#include "common.cuh"

// The constants of a step: package kernel's AdamStep, then the decay of weights.
struct Step {
	float beta1, beta2, alpha1, alpha2, rate, inv_root, epsilon;
	float shrink; // added to the weights, times the weights
	float decay;  // added to the gradients, times the weights
};

template <int N> __device__ __forceinline__ void adam_body(float *w, const float *g, float *m, float *v, const Step *step, i64 n) {
	Step s = *step;
	i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * N;
	if (i >= n)
		return;
	Floats<N> fw = load<N>(w + i), fg = load<N>(g + i), fm = load<N>(m + i), fv = load<N>(v + i);
	for (int k = 0; k < N; k++) {
		float wi = fw.v[k], gi = fg.v[k];
		if (s.shrink != 0)
			wi += wi * s.shrink;
		if (s.decay != 0)
			gi += wi * s.decay;
		float mi = s.beta1 * fm.v[k] + s.alpha1 * gi;
		float vi = s.beta2 * fv.v[k] + s.alpha2 * gi * gi;
		fm.v[k] = mi;
		fv.v[k] = vi;
		fw.v[k] = wi - s.rate * mi / (sqrtf(vi) * s.inv_root + s.epsilon);
	}
	store<N>(w + i, fw);
	store<N>(m + i, fm);
	store<N>(v + i, fv);
}

BOTH(adam, LIST(float *w, const float *g, float *m, float *v, const Step *step, i64 n), LIST(w, g, m, v, step, n))
