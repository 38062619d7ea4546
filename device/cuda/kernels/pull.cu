// A layer of a whole graph: the destinations of a tile add the rows of their sources,
// block by block of sources. A list of sources ascends, so that the sources in a block
// are a part of it: from ≤ position < to. Every row is added to the accumulator itself,
// so that the cuts between blocks do not show in the sums.
#include "tail.cuh"

// A tile's lists: list i is sources[starts[i]..starts[i + 1]].
#define LISTS \
	const u64 *starts, const u32 *sources, const u32 *from, const u32 *to, u32 first, u32 fold, double *wide, const u32 *longs, i64 many, i64 most
#define LISTS_OF starts, sources, from, to, first, fold, wide, longs, many, most

// to[i] = the first position of list i, from from[i] on, of a source of end or beyond.
// A source below first makes bad 1, and ends the search.
extern "C" __global__ void pull_seek(u32 *to, const u32 *from, const u64 *starts, const u32 *sources, i64 first, i64 end, u32 *bad, i64 most) {
	i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= most)
		return;
	const u32 *list = sources + starts[i];
	u32 n = (u32)(starts[i + 1] - starts[i]), p = from[i];
	for (; p < n && (i64)list[p] < end; p++)
		if ((i64)list[p] < first) {
			*bad = 1;
			break;
		}
	to[i] = p;
}

// The part of a list that is in the block. A list longer than fold has wide sums, of
// blocks of fold positions.
struct Part {
	const u32 *list;
	u32 from, to, length;
	double *wide; // or null
};

__device__ __forceinline__ Part part_of(i64 i, i64 width, LISTS) {
	Part p = {sources + starts[i], from[i], to[i], (u32)(starts[i + 1] - starts[i]), nullptr};
	if (p.length <= fold)
		return p;
	i64 lo = 0, hi = many;
	while (lo < hi) {
		i64 at = (lo + hi) / 2;
		if (longs[at] < i)
			lo = at + 1;
		else
			hi = at;
	}
	if (lo < many && longs[lo] == i)
		p.wide = wide + lo * width;
	return p;
}

// Moves a sum to the wide sums.
template <int N> __device__ __forceinline__ void fold_sum(double *wide, Floats<N> &sum) {
	for (int n = 0; n < N; n++) {
		wide[n] += sum.v[n];
		sum.v[n] = 0;
	}
}

// Adds a row, or raises to it.
template <int N, bool MAX> __device__ __forceinline__ void take(Floats<N> &sum, const Floats<N> &row) {
	for (int n = 0; n < N; n++)
		sum.v[n] = MAX ? (row.v[n] > sum.v[n] ? row.v[n] : sum.v[n]) : sum.v[n] + row.v[n];
}

// Takes the rows of some positions of a list, in order. Four are on their way at once.
template <int N, bool MAX>
__device__ __forceinline__ void take_rows(Floats<N> &sum, const float *x, i64 width, const u32 *list, u32 from, u32 to, u32 first) {
	u32 p = from;
	for (; p + 4 <= to; p += 4) {
		Floats<N> row[4];
#pragma unroll
		for (int k = 0; k < 4; k++)
			row[k] = load<N>(x + (list[p + k] - first) * width);
#pragma unroll
		for (int k = 0; k < 4; k++)
			take<N, MAX>(sum, row[k]);
	}
	for (; p < to; p++)
		take<N, MAX>(sum, load<N>(x + (list[p] - first) * width));
}

// acc[i] += Σ x[source], or the largest by column.
template <int N, bool MAX> __device__ __forceinline__ void pull(float *acc, i64 stride, const float *x, i64 width, LISTS) {
	i64 i = this_row();
	if (i >= most)
		return;
	Part part = part_of(i, width, LISTS_OF);
	if (part.from == part.to)
		return;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = load<N>(acc + i * stride + c);
		for (u32 p = part.from; p < part.to;) {
			u32 stop = part.to;
			if (!MAX && part.wide)
				stop = (u32)min((u64)stop, ((u64)p / fold + 1) * fold);
			take_rows<N, MAX>(sum, x + c, width, part.list, p, stop, first);
			p = stop;
			if (!MAX && part.wide && (p % fold == 0 || p == part.length))
				fold_sum<N>(part.wide + c, sum);
		}
		store<N>(acc + i * stride + c, sum);
	}
}

#define PARAMETERS float *acc, i64 stride, const float *x, i64 width, LISTS
#define ARGUMENTS acc, stride, x, width, LISTS_OF
template <int N> __device__ __forceinline__ void pull_sum_body(PARAMETERS) { pull<N, false>(ARGUMENTS); }
template <int N> __device__ __forceinline__ void pull_max_body(PARAMETERS) { pull<N, true>(ARGUMENTS); }
BOTH(pull_sum, LIST(PARAMETERS), LIST(ARGUMENTS))
BOTH(pull_max, LIST(PARAMETERS), LIST(ARGUMENTS))
#undef PARAMETERS
#undef ARGUMENTS

// Attention. A row of products is
//
//	products of the heads | their scores as sources | their scores as destinations
//
// and an accumulator
//
//	sums of the heads | sums of the weights | largest scores | scores as a destination
//
// A source is weighed against the largest score so far; where that rises, the sums are
// first scaled down to it.

// Weighs the sources of a part, except the destination itself, for one head, and calls
// scale with the factor of the sums where the largest score rises, and add with the
// source's row and weight. ends is called behind each block of positions.
template <class Scale, class Add, class Fold>
__device__ __forceinline__ void weigh(const Part &part, const float *x, i64 stride, i64 at, float own, float top, float slope, u32 self, u32 first,
                                      u32 fold, Scale scale, Add add, Fold ends) {
	for (u32 p = part.from; p < part.to; p++) {
		u32 u = part.list[p];
		if (u != self) {
			const float *row = x + (u - first) * stride;
			float s = leaky(row[at] + own, slope);
			if (s > top) {
				scale(exp_of(top - s), s);
				top = s;
			}
			add(row, exp_of(s - top));
		}
		if (part.wide && ((p + 1) % fold == 0 || p + 1 == part.length))
			ends();
	}
}

// The sums of the heads' products. The sums of weights and the largest scores stay: see
// pull_weights.
template <int N>
__device__ __forceinline__ void pull_heads_body(float *acc, const float *x, i64 heads, i64 part, float slope, const u32 *nodes, u32 base, LISTS) {
	i64 i = this_row(), columns = heads * part, stride = columns + 2 * heads;
	if (i >= most)
		return;
	Part list = part_of(i, columns + heads, LISTS_OF);
	if (list.from == list.to)
		return;
	acc += i * (columns + 3 * heads);
	u32 self = nodes ? nodes[i] : base + (u32)i;
	for (i64 c = (i64)threadIdx.x * N; c < columns; c += blockDim.x * N) {
		i64 h = c / part;
		Floats<N> sum = load<N>(acc + c);
		double *total = list.wide + c;
		weigh(
		    list, x, stride, columns + h, acc[columns + 2 * heads + h], acc[columns + heads + h], slope, self, first, fold,
		    [&](float factor, float) {
			    for (int n = 0; n < N; n++) {
				    sum.v[n] *= factor;
				    if (list.wide)
					    total[n] *= factor;
			    }
		    },
		    [&](const float *row, float weight) {
			    Floats<N> v = load<N>(row + c);
			    for (int n = 0; n < N; n++)
				    sum.v[n] += weight * v.v[n];
		    },
		    [&] { fold_sum<N>(total, sum); });
		store<N>(acc + c, sum);
	}
}

BOTH(pull_heads, LIST(float *acc, const float *x, i64 heads, i64 part, float slope, const u32 *nodes, u32 base, LISTS),
     LIST(acc, x, heads, part, slope, nodes, base, LISTS_OF))

// The sums of weights and the largest scores, after pull_heads has used them.
extern "C" __global__ void pull_weights(float *acc, const float *x, i64 heads, i64 part, float slope, const u32 *nodes, u32 base, LISTS) {
	i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, i = at / heads, h = at % heads, columns = heads * part;
	if (i >= most)
		return;
	Part list = part_of(i, columns + heads, LISTS_OF);
	acc += i * (columns + 3 * heads);
	u32 self = nodes ? nodes[i] : base + (u32)i;
	Floats<1> sum = {acc[columns + h]};
	float top = acc[columns + heads + h];
	double *total = list.wide + columns + h;
	weigh(
	    list, x, columns + 2 * heads, columns + h, acc[columns + 2 * heads + h], top, slope, self, first, fold,
	    [&](float factor, float score) {
		    sum.v[0] *= factor;
		    if (list.wide)
			    *total *= factor;
		    top = score;
	    },
	    [&](const float *, float weight) { sum.v[0] += weight; }, [&] { fold_sum<1>(total, sum); });
	acc[columns + h] = sum.v[0];
	acc[columns + heads + h] = top;
}

// The accumulators begin with the destinations' own products, with the weight 1, or
// without a row.
extern "C" __global__ void pull_begin(float *acc, const float *own, i64 heads, i64 part, float slope, i64 most) {
	i64 i = this_row(), columns = heads * part;
	if (i >= most)
		return;
	acc += i * (columns + 3 * heads);
	if (!own) {
		for (i64 c = threadIdx.x; c < columns + 3 * heads; c += blockDim.x)
			acc[c] = c >= columns + heads && c < columns + 2 * heads ? -INFINITY : 0;
		return;
	}
	own += i * (columns + 2 * heads);
	for (i64 c = threadIdx.x; c < columns; c += blockDim.x)
		acc[c] = own[c];
	for (i64 h = threadIdx.x; h < heads; h += blockDim.x) {
		float mine = own[columns + heads + h];
		acc[columns + h] = 1;
		acc[columns + heads + h] = leaky(own[columns + h] + mine, slope);
		acc[columns + 2 * heads + h] = mine;
	}
}

// The accumulators of long lists take the wide sums.
extern "C" __global__ void pull_unfold(float *acc, i64 stride, const double *wide, i64 width, const u32 *longs, i64 most) {
	i64 k = this_row();
	if (k >= most)
		return;
	for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
		float *sum = acc + longs[k] * stride + c;
		*sum = (float)(wide[k * width + c] + *sum);
	}
}

// out[i] = factors[i]·acc[i] + owns[i]·own[i]; a factor of 0 leaves out an accumulator
// that is not finite.
template <int N>
__device__ __forceinline__ void settle_body(float *out, i64 stride, const float *acc, i64 gap, i64 width, const float *factors, const float *own,
                                            const float *owns, i64 most) {
	i64 i = this_row();
	if (i >= most)
		return;
	float factor = factors[i];
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> sum = load<N>(acc + i * gap + c);
		for (int n = 0; n < N; n++)
			sum.v[n] = factor == 0 ? 0 : sum.v[n] * factor;
		if (own) {
			Floats<N> mine = load<N>(own + i * width + c);
			for (int n = 0; n < N; n++)
				sum.v[n] += mine.v[n] * owns[i];
		}
		store<N>(out + i * stride + c, sum);
	}
}

BOTH(settle,
     LIST(float *out, i64 stride, const float *acc, i64 gap, i64 width, const float *factors, const float *own, const float *owns, i64 most),
     LIST(out, stride, acc, gap, width, factors, own, owns, most))

// The mean of a sum with this total weight: 0 without weights.
__device__ __forceinline__ float mean_of(float sum, float weights) { return weights == 0 ? 0 : sum * (1 / weights); }

// out[i] = the heads' sums divided by the sums of their weights: side by side, or their
// mean; or, if add, out[i] += these.
extern "C" __global__ void settle_heads(float *out, const float *acc, i64 heads, i64 part, u32 mean, u32 add, i64 most) {
	i64 i = this_row(), columns = heads * part, width = mean ? part : columns;
	if (i >= most)
		return;
	acc += i * (columns + 3 * heads);
	for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
		float v = mean_of(acc[c], acc[columns + c / part]);
		if (mean) {
			for (i64 h = 1; h < heads; h++)
				v += mean_of(acc[h * part + c], acc[columns + h]);
			v *= 1 / (float)heads;
		}
		float *to = out + i * width + c;
		*to = add ? *to + v : v;
	}
}

// x[i] *= factors[i].
template <int N> __device__ __forceinline__ void scale_rows_body(float *x, i64 width, const float *factors, i64 most) {
	i64 i = this_row();
	if (i >= most)
		return;
	for (i64 c = (i64)threadIdx.x * N; c < width; c += blockDim.x * N) {
		Floats<N> f = load<N>(x + i * width + c);
		for (int n = 0; n < N; n++)
			f.v[n] *= factors[i];
		store<N>(x + i * width + c, f);
	}
}

BOTH(scale_rows, LIST(float *x, i64 width, const float *factors, i64 most), LIST(x, width, factors, most))

extern "C" __global__ void fill_floats(float *x, float value, i64 most) {
	i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < most)
		x[i] = value;
}
