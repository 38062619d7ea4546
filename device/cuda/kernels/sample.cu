// One hop of a batch's sampling: draw neighbours of the frontier, number the nodes that are
// new. The result is that of package presample/sampler, bit by bit, whatever the order in
// which threads run.
//
// Draw. Destination i draws by Floyd's method from the stream of (batch, hop, node). A warp
// takes a destination. Position k of its draw is a number t[k] of the stream, from 0 to j[k] =
// n − fanout + k; a lane computes one. It is taken unless it was before, and then j[k] is. So
// position k collides if t[k] is an earlier t, or if it is an earlier j whose own position
// collided: the lanes find out which did by repeating the second rule until nothing changes.
// Where a number is drawn again to be unbiased, the lanes behind it move on by one.
//
// Number. A table, of open addressing, has a word for every node of the batch: the node above,
// its number below. A node that is new gets, by the least of all that its edges want to put
// there, the number of destinations plus that of its first edge. So an edge is the first of
// a new node if the table has its own number. A prefix sum over these edges counts them in
// order of the edges, which is the order of discovery, and gives the node's number.
//
// A node has a record of three words: the two halves of the place where its list of in-neighbours
// begins, and their number. The lists lie in two memories, and a bit of the place says in which:
// NEAR is the GPU's own, else the GPU reads the list over the bus.
//
// Prefix sums go over tiles: their sums, the sums before each tile (one block), the sums within.
//
// Counts lie in device memory. A hop that exceeds what there is room for sets NO_ROOM and
// leaves none of the edges or nodes to the work behind it, so that nothing is written beyond
// the room.
#include "tiles.cuh"

constexpr u64 EMPTY = ~0ull;
constexpr u64 GOLDEN = 0x9E3779B97F4A7C15;

constexpr u64 NEAR = 1ull << 63; // of a list's place: it is in the GPU's memory

constexpr u32 NO_ROOM = 1;  // more than there is room for
constexpr u32 TWICE = 2; // a seed node is listed twice

// What internal/rng does.
__device__ __forceinline__ u64 mix(u64 x) {
	x ^= x >> 30;
	x *= 0xBF58476D1CE4E5B9;
	x ^= x >> 27;
	x *= 0x94D049BB133111EB;
	return x ^ x >> 31;
}

__device__ __forceinline__ u64 join(u64 key, u64 word) { return mix(key + GOLDEN + mix(word + GOLDEN)); }

// How many neighbours a destination draws.
__device__ __forceinline__ u32 takes(u32 degree, u32 fanout) { return degree < fanout ? degree : fanout; }

// Where the table has a node, with value as its number or less, if another thread gave it
// less. fresh says that it had none. There is room.
__device__ __forceinline__ u32 enter(u64 *table, int bits, u32 node, u32 value, bool &fresh) {
	u64 entry = (u64)node << 32 | value;
	u32 mask = (1u << bits) - 1;
	fresh = false;
	for (u32 at = (node * 0x9E3779B1u) >> (32 - bits);; at = (at + 1) & mask) {
		u64 was = ((volatile u64 *)table)[at];
		if (was == EMPTY) {
			was = atomicCAS(table + at, EMPTY, entry);
			if (was == EMPTY) {
				fresh = true;
				return at;
			}
		}
		if ((u32)(was >> 32) == node) {
			if (was > entry)
				atomicMin(table + at, entry);
			return at;
		}
	}
}

// Where a node's list begins, and how many in-neighbours it has.
__device__ __forceinline__ void locate(u32 *degrees, u64 *starts, const u32 *graph, i64 i, u32 node) {
	const u32 *record = graph + 3 * (u64)node;
	starts[i] = record[0] | (u64)record[1] << 32;
	degrees[i] = record[2];
}

#define FRONTIER const u32 *graph, u32 *nodes, u32 *degrees, u64 *starts, u64 *table, i64 bits, u32 *wrong

// Numbers the seed nodes, which nodes begins with, from 0; *count = how many there are. The
// table is empty.
extern "C" __global__ void sample_seeds(FRONTIER, u32 *count, const u32 *at, i64 most) {
	i64 i = this_element(), rows = rows_of(at, most);
	if (i == 0)
		*count = (u32)rows;
	if (i >= rows)
		return;
	bool fresh;
	enter(table, (int)bits, nodes[i], (u32)i, fresh);
	if (!fresh)
		atomicOr(wrong, TWICE);
	locate(degrees, starts, graph, i, nodes[i]);
}

// sums[t] = the edges that the destinations of tile t draw.
extern "C" __global__ void sample_takes(u64 *sums, const u32 *degrees, u32 fanout, const u32 *at, i64 most) {
	i64 i = this_element();
	u64 all;
	sum_before(i < rows_of(at, most) ? takes(degrees[i], fanout) : 0, all);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = all;
}

// sums[t] = the sum of those before; *total = *base plus the sum of all tiles of the rows, if
// that is no more than limit, and 0 otherwise. One block.
extern "C" __global__ void sample_offsets(u64 *sums, u32 *total, const u32 *base, i64 limit, u32 *wrong, const u32 *at, i64 most) {
	i64 tiles = (rows_of(at, most) + TILE - 1) / TILE;
	u64 before = 0;
	for (i64 first = 0; first < tiles; first += TILE) {
		i64 i = first + threadIdx.x;
		u64 all, sum = sum_before(i < tiles ? sums[i] : 0, all);
		if (i < tiles)
			sums[i] = before + sum;
		before += all;
	}
	if (threadIdx.x > 0)
		return;
	if (base)
		before += *base;
	if (before > (u64)limit) {
		atomicOr(wrong, NO_ROOM);
		before = 0;
	}
	*total = (u32)before;
}

// indptr[i+1] = the edges of the destinations up to i.
extern "C" __global__ void sample_indptr(u32 *indptr, const u64 *sums, const u32 *degrees, u32 fanout, const u32 *at, i64 most) {
	i64 i = this_element();
	bool mine = i < rows_of(at, most);
	u64 all, value = mine ? takes(degrees[i], fanout) : 0;
	u64 before = sums[blockIdx.x] + sum_before(value, all);
	if (mine)
		indptr[i + 1] = (u32)(before + value);
	if (i == 0)
		indptr[0] = 0;
}

// The numbers of a destination's stream that a warp has passed.
struct Stream {
	u64 key;
	u64 passed;
};

// A number from 0 to j of the stream: of lane l the l-th from where the stream stands. Lanes
// that are not mine draw none. It is what rng.Source.Uint32n makes of them one by one.
__device__ __forceinline__ u32 draw(Stream &s, u32 j, bool mine, int lane) {
	u32 n = j + 1, again = 0;
	for (;;) {
		u64 product = (mix(s.key + GOLDEN * (s.passed + lane + again + 1)) >> 32) * n;
		u32 low = (u32)product;
		u32 biased = __ballot_sync(EVERYONE, mine && low < n && low < (0 - n) % n);
		if (biased == 0) {
			s.passed += WARP + __shfl_sync(EVERYONE, again, WARP - 1);
			return (u32)(product >> 32);
		}
		if (lane >= __ffs(biased) - 1)
			again++;
	}
}

// places[e] = where the table has the source of edge e, for all edges of the hop. A block's x
// dimension is a warp, which takes a destination.
extern "C" __global__ void sample_draw(FRONTIER, u32 *places, const u32 *indptr, const u32 *far, const u32 *near, u64 key, const u32 *edges, const u32 *at, i64 most) {
	i64 i = this_row(), rows = rows_of(at, most);
	if (i >= rows)
		return;
	u32 from = indptr[i], take = indptr[i + 1] - from, n = degrees[i];
	if (indptr[i + 1] > *edges) // there is no room for them
		return;
	int lane = threadIdx.x;
	places += from;
	u64 start = starts[i];
	const u32 *sources = start & NEAR ? near + (start & ~NEAR) : far + start;
	if (take < n) {
		Stream stream = {join(key, nodes[i]), 0};
		u32 first = n - take; // the least j
		for (u32 k = 0; k < take; k += WARP) {
			bool mine = k + lane < take;
			u32 j = first + k + lane;
			u32 t = draw(stream, mine ? j : 0, mine, lane);
			bool taken = false;
			for (u32 m = 0; m < k; m++)
				taken |= places[m] == t;
			u32 same = __match_any_sync(EVERYONE, mine ? (u64)t : EMPTY - lane);
			taken |= (same & ((1u << lane) - 1)) != 0;
			u32 earlier = t - (first + k); // the lane whose j it is
			u32 collided = __ballot_sync(EVERYONE, taken);
			for (;;) {
				taken |= earlier < (u32)lane && (collided >> earlier & 1);
				u32 now = __ballot_sync(EVERYONE, taken);
				if (now == collided)
					break;
				collided = now;
			}
			if (mine)
				places[k + lane] = taken ? j : t;
			__syncwarp();
		}
	}
	for (u32 k = lane; k < take; k += WARP) {
		bool fresh;
		u32 position = take < n ? places[k] : k;
		places[k] = enter(table, (int)bits, sources[position], (u32)rows + from + k, fresh);
	}
}

// Whether edge e is the first of a node that is new: the number that its node has in the
// table is its own.
__device__ __forceinline__ bool first(const u64 *table, const u32 *places, i64 e, u32 known) {
	return (u32)table[places[e]] == known + (u32)e;
}

// sums[t] = the first edges of new nodes among those of tile t. *known is the number of
// destinations.
extern "C" __global__ void sample_firsts(u64 *sums, const u64 *table, const u32 *places, const u32 *known, const u32 *at, i64 most) {
	i64 e = this_element();
	u64 all;
	sum_before(e < rows_of(at, most) && first(table, places, e, *known), all);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = all;
}

// Numbers the new nodes, from *known on, in the order of their first edges. *found is how many
// nodes there are then; 0: there is no room for them. Another edge may see a node's number
// come to the table: it is not above that of the node's first edge, and so no other edge's
// own.
extern "C" __global__ void sample_number(FRONTIER, const u32 *places, const u64 *sums, const u32 *known, const u32 *found, const u32 *at, i64 most) {
	i64 e = this_element();
	bool is = e < rows_of(at, most) && first(table, places, e, *known);
	u64 all;
	u64 number = *known + sums[blockIdx.x] + sum_before(is, all);
	if (!is || number >= *found)
		return;
	u32 place = places[e], node = (u32)(table[place] >> 32);
	nodes[number] = node;
	table[place] = (u64)node << 32 | number;
	locate(degrees, starts, graph, (i64)number, node);
}

// indices[e] = the number of the source of edge e, where indices had its place in the table.
extern "C" __global__ void sample_sources(u32 *indices, const u64 *table, const u32 *at, i64 most) {
	i64 e = this_element();
	if (e < rows_of(at, most))
		indices[e] = (u32)table[indices[e]];
}
