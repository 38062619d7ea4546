// Kernels that drive NVMe queues. Rings, doorbells and staging buffers may lie in memory of
// the host's, whose other user is a controller:
//
//	- whoever wrote a command makes it visible to the system before one thread rings;
//	- of a completion the last word is read, by an acquiring load, and nothing else;
//	- staging buffers are read past the caches;
//	- each word has one writer, and no word is changed by an atomic operation over the bus;
//	- all waiting is for the controller alone, never for another block, and ends at a
//	  deadline, or when the host says so.
//
// layout.go has the structures.
typedef unsigned u32;
typedef unsigned long long u64;

struct Queue {
	u32 *sq;
	u32 *cq;
	u32 *submission;
	u32 *completion;
	unsigned char *data;
	const u64 *pages;
	u32 *states;
	u64 depth, tail, head, dead, reserved[5];
};

struct Request {
	u64 block, offset, blocks;
};

constexpr u32 READ = 2;
constexpr u32 PAGE = 4096;
constexpr int DRIVES = 16;
constexpr int QUEUES = 1024;
constexpr int BIN_BLOCKS = 32;
constexpr u32 BUSY = 1, DONE = 1u << 31, FREE = 0;
constexpr u32 TIMEOUT = 1 << 16, ABORTED = 2 << 16, PROTOCOL = 3 << 16, REFUSED = 4 << 16;
constexpr u64 NO_FAILURE = ~0ull;
constexpr u32 ALL = ~0u;

__device__ __forceinline__ u32 acquire_system(const u32 *p) {
	u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ u32 acquire(const u32 *p) {
	u32 v;
	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ void release(u32 *p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

// ring writes a doorbell, after all that this thread knows to be written. The doorbell is a
// word of memory: registers of a real function would want st.mmio.
__device__ __forceinline__ void ring(u32 *doorbell, u32 v) {
	__threadfence_system();
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(doorbell), "r"(v) : "memory");
}

__device__ __forceinline__ u64 nanoseconds() {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

__device__ __forceinline__ u32 rows_of(const u32 *at, u32 most) { return at && *at < most ? *at : most; }

// The drive of a request, DRIVES where it cannot be carried out.
__device__ __forceinline__ u32 drive_of(const Request &r, u32 drives, u64 per_drive, u64 most_blocks, u32 shift, u64 room) {
	if (r.block / per_drive >= drives || r.blocks == 0 || r.blocks > most_blocks || r.offset % 16 != 0 || r.offset > room || (r.blocks << shift) > room - r.offset)
		return DRIVES;
	return (u32)(r.block / per_drive);
}

constexpr int BIN_THREADS = 256;

// The requests that a block bins: from, and the first that is not.
__device__ __forceinline__ void part(u32 n, u32 *from, u32 *to) {
	u32 each = (n + BIN_BLOCKS - 1) / BIN_BLOCKS;
	each = (each + BIN_THREADS - 1) / BIN_THREADS * BIN_THREADS;
	*from = min(n, blockIdx.x * each);
	*to = min(n, *from + each);
}

// counts[block][drive] = how many of the block's requests are of the drive.
extern "C" __global__ void nvme_count(u32 *counts, const Request *requests, u32 drives, u64 per_drive, u64 most_blocks, u32 shift, u64 room, const u32 *at,
                                      u32 most) {
	__shared__ u32 count[DRIVES + 1];
	u32 from, to;
	part(rows_of(at, most), &from, &to);
	if (threadIdx.x <= DRIVES)
		count[threadIdx.x] = 0;
	__syncthreads();
	for (u32 i = from + threadIdx.x; i < to; i += BIN_THREADS)
		atomicAdd(&count[drive_of(requests[i], drives, per_drive, most_blocks, shift, room)], 1);
	__syncthreads();
	if (threadIdx.x < drives)
		counts[blockIdx.x * drives + threadIdx.x] = count[threadIdx.x];
}

// order = the requests of drive 0 in their order, then those of drive 1, …; starts says where
// a drive's begin, and where the last one's end. A request that cannot be carried out gets its
// status here.
extern "C" __global__ void nvme_place(u32 *order, u32 *starts, u32 *status, u64 *outcomes, const u32 *counts, const Request *requests, u32 drives, u64 per_drive,
                                      u64 most_blocks, u32 shift, u64 room, const u32 *at, u32 most) {
	__shared__ u32 next[DRIVES + 1];
	__shared__ u32 warps[BIN_THREADS / 32][DRIVES + 1];
	__shared__ u64 refused;
	u32 t = threadIdx.x, lane = t % 32, warp = t / 32, from, to;
	part(rows_of(at, most), &from, &to);
	if (t == 0) {
		u32 all = 0;
		refused = NO_FAILURE;
		next[DRIVES] = 0;
		for (u32 d = 0; d < drives; d++) {
			if (blockIdx.x == 0)
				starts[d] = all;
			for (u32 b = 0; b < BIN_BLOCKS; b++) {
				if (b == blockIdx.x)
					next[d] = all;
				all += counts[b * drives + d];
			}
		}
		if (blockIdx.x == 0)
			starts[drives] = all;
	}
	__syncthreads();
	for (u32 base = from; base < to; base += BIN_THREADS) {
		u32 i = base + t;
		u32 d = i < to ? drive_of(requests[i], drives, per_drive, most_blocks, shift, room) : DRIVES;
		u32 peers = __match_any_sync(ALL, d);
		u32 rank = __popc(peers & ((1u << lane) - 1));
		if (lane <= DRIVES)
			warps[warp][lane] = 0;
		__syncwarp();
		if (rank == 0)
			warps[warp][d] = __popc(peers);
		__syncthreads();
		if (d < DRIVES) {
			u32 place = next[d] + rank;
			for (u32 w = 0; w < warp; w++)
				place += warps[w][d];
			order[place] = i;
		} else if (i < to) {
			status[i] = REFUSED;
			atomicMin(&refused, (u64)i << 32 | REFUSED);
		}
		__syncthreads();
		if (t < drives)
			for (u32 w = 0; w < BIN_THREADS / 32; w++)
				next[t] += warps[w][t];
		__syncthreads();
	}
	__syncthreads();
	if (t == 0)
		outcomes[blockIdx.x] = refused;
}

// What a queue has of a micro-batch. Request k of a drive is in slot position (base + k) mod
// slots, of which the queue is the remainder by the drive's queues, and the slot the quotient;
// so the queue's are every queues-th, from first on.
struct Share {
	u32 first, count;
	__device__ Share(u32 requests, u32 i, u32 queues, u32 base) {
		first = (i + queues - base % queues) % queues;
		count = requests > first ? (requests - first - 1) / queues + 1 : 0;
	}
};

// write_read writes a command at an entry of the ring.
__device__ __forceinline__ void write_read(const Queue &q, u32 entry, u32 slot, u32 space, u64 block, u64 blocks, u32 shift) {
	u64 bytes = blocks << shift;
	u64 one = q.pages[3 * slot];
	u64 two = bytes <= PAGE ? 0 : bytes <= 2 * PAGE ? q.pages[3 * slot + 1] : q.pages[3 * slot + 2];
	uint4 *to = (uint4 *)(q.sq + 16 * entry);
	__stwt(to, make_uint4(READ | slot << 16, space, 0, 0));
	__stwt(to + 1, make_uint4(0, 0, (u32)one, (u32)(one >> 32)));
	__stwt(to + 2, make_uint4((u32)two, (u32)(two >> 32), (u32)block, (u32)(block >> 32)));
	__stwt(to + 3, make_uint4((u32)blocks - 1, 0, 0, 0));
}

// bring copies a staging buffer to its destination, by a warp: 16 bytes a lane.
__device__ __forceinline__ void bring(unsigned char *to, const unsigned char *from, u64 bytes, u32 lane) {
	constexpr int TURNS = 8;
	const uint4 *f = (const uint4 *)from;
	uint4 *t = (uint4 *)to;
	u32 units = (u32)(bytes / 16);
	for (u32 u = lane; u < units; u += 32 * TURNS) {
		uint4 v[TURNS];
#pragma unroll
		for (int k = 0; k < TURNS; k++)
			if (u + 32 * k < units)
				v[k] = __ldcv(f + u + 32 * k);
#pragma unroll
		for (int k = 0; k < TURNS; k++)
			if (u + 32 * k < units)
				t[u + 32 * k] = v[k];
	}
}

// One block writes all commands, and rings each queue once.
extern "C" __global__ void __launch_bounds__(512) nvme_submit(Queue *queues, u32 drives, u32 per, const Request *requests, const u32 *order, const u32 *starts, u32 base, u64 per_drive,
                                       u32 space, u32 shift) {
	__shared__ u32 tails[QUEUES];
	u32 t = threadIdx.x, all = drives * per;
	for (u32 i = t; i < all; i += blockDim.x) {
		// Whether a queue is dead is looked up once: all of its commands are written, or none.
		const volatile u64 *dead = &queues[i].dead;
		tails[i] = *dead ? ALL : (u32)(queues[i].tail % queues[i].depth);
	}
	__syncthreads();
	for (u32 d = 0; d < drives; d++) {
		u32 n = starts[d + 1] - starts[d];
		for (u32 k = t; k < n; k += blockDim.x) {
			const Queue &first = queues[d * per];
			u32 slots = (u32)(first.depth - 1) * per;
			u32 at = (base + k) % slots, slot = at / per, i = d * per + at % per;
			if (tails[i] == ALL)
				continue;
			const Queue &q = queues[i];
			const Request r = requests[order[starts[d] + k]];
			release(&q.states[slot], BUSY);
			write_read(q, (tails[i] + k / per) % (u32)q.depth, slot, space, r.block % per_drive, r.blocks, shift);
		}
	}
	__threadfence_system();
	__syncthreads();
	for (u32 i = t; i < all; i += blockDim.x) {
		u32 d = i / per;
		Share share(starts[d + 1] - starts[d], i % per, per, base);
		if (tails[i] == ALL || share.count == 0)
			continue;
		Queue &q = queues[i];
		ring(q.submission, (tails[i] + share.count) % (u32)q.depth);
		q.tail += share.count;
	}
}

// A wait that ends: at a deadline, or when the host says so.
struct Wait {
	u64 until;
	const u32 *control;
	u32 pause, turn;
	__device__ Wait(u64 timeout, const u32 *control) : until(nanoseconds() + timeout), control(control), pause(16), turn(0) {}
	__device__ void again() { pause = 16; }
	// Pauses, and returns why the wait is over, or 0.
	__device__ u32 over() {
		__nanosleep(pause);
		pause = min(2 * pause, 256u);
		if (++turn % 16 != 0)
			return 0;
		if (acquire_system(control))
			return ABORTED;
		return nanoseconds() > until ? TIMEOUT : 0;
	}
};

__device__ __forceinline__ bool completed(const Queue &q, u64 position, u32 *word) {
	*word = acquire_system(&q.cq[4 * (position % q.depth) + 3]);
	return (*word >> 16 & 1) == ((position / q.depth & 1) ^ 1);
}

// landed counts, by a warp, the queue's requests whose completions were consumed already.
__device__ u32 landed(const Queue &q, const Share &share, u32 slots, u32 per, u32 base) {
	u32 done = 0;
	for (u32 j = threadIdx.x % 32; j < share.count; j += 32)
		done += acquire(&q.states[(base + share.first + j * per) % slots / per]) >> 31;
	return __reduce_add_sync(ALL, done);
}

// reap consumes completions by a warp, 32 at once, until those of the micro-batch are among
// them, of which some were before; what else there is becomes the state of its slot. It
// returns why it gave up, or 0.
__device__ u32 reap(Queue &q, const Share &share, u32 done, u32 n, u32 i, u32 per, u32 base, u64 timeout, const u32 *control) {
	u32 lane = threadIdx.x % 32, depth = (u32)q.depth, slots = (depth - 1) * per;
	u64 head = q.head;
	u32 fate = (u32)q.dead;
	Wait wait(timeout, control);
	while (fate == 0 && done < share.count) {
		u32 word = 0;
		bool there = lane < depth && completed(q, head + lane, &word);
		u32 run = __ffs(~__ballot_sync(ALL, there));
		run = run == 0 ? 32 : run - 1;
		if (run == 0) {
			if (lane == 0)
				fate = wait.over();
			fate = __shfl_sync(ALL, fate, 0);
			continue;
		}
		wait.again();
		u32 slot = word & 0xffff;
		bool mine = false, wrong = false;
		if (lane < run) {
			wrong = slot >= depth - 1 || acquire(&q.states[slot]) != BUSY;
			if (!wrong) {
				mine = (slot * per + i + slots - base) % slots < n;
				release(&q.states[slot], DONE | word >> 17);
			}
		}
		if (__any_sync(ALL, wrong)) {
			fate = PROTOCOL;
			break;
		}
		done += __popc(__ballot_sync(ALL, mine));
		head += run;
		__syncwarp();
		if (lane == 0)
			ring(q.completion, (u32)(head % depth));
	}
	if (lane == 0) {
		q.head = head;
		q.dead = fate;
	}
	return fate;
}

// A block takes queues in turns. Its first warp consumes the queue's completions; the others
// take the queue's requests, each in turn, wait until theirs is among them, and bring the data
// to its place.
extern "C" __global__ void __launch_bounds__(512) nvme_complete(Queue *queues, u32 drives, u32 per, const Request *requests, const u32 *order, const u32 *starts, u32 base,
                                         unsigned char *to, u32 *status, u64 *outcomes, u64 slot_bytes, u32 shift, u64 timeout, const u32 *control) {
	__shared__ u32 over; // 1: the first warp is done; | why it gave up
	__shared__ u32 lost; // whether a completion is missing
	__shared__ u64 failed;
	u32 t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32 - 1;
	for (u32 all = blockIdx.x; all < drives * per; all += gridDim.x) {
		Queue &q = queues[all];
		u32 d = all / per, n = starts[d + 1] - starts[d], slots = (u32)(q.depth - 1) * per;
		Share share(n, all % per, per, base);
		if (t == 0) {
			over = lost = 0;
			failed = NO_FAILURE;
		}
		u32 done = warp == 0 ? landed(q, share, slots, per, base) : 0; // before a slot becomes free
		__syncthreads();
		if (warp == 0) {
			u32 fate = reap(q, share, done, n, all % per, per, base, timeout, control);
			__threadfence_block();
			if (lane == 0)
				atomicExch(&over, 1 | fate);
		} else {
			for (u32 j = warp - 1; j < share.count; j += warps) {
				u32 k = share.first + j * per, r = order[starts[d] + k], slot = (base + k) % slots / per;
				u32 s = 0;
				if (lane == 0) {
					while (!((s = acquire(&q.states[slot])) & DONE)) {
						u32 ended = *(volatile u32 *)&over;
						if (ended) {
							__threadfence();
							s = acquire(&q.states[slot]);
							if (!(s & DONE))
								s = ended & ~1u ? ended & ~1u : PROTOCOL;
							break;
						}
						__nanosleep(64);
					}
				}
				s = __shfl_sync(ALL, s, 0) & ~DONE;
				(void)acquire(&q.states[slot]); // every lane comes after the completion
				if (s == 0)
					bring(to + requests[r].offset, q.data + slot * slot_bytes, requests[r].blocks << shift, lane);
				__syncwarp();
				if (lane == 0) {
					status[r] = s;
					if (s < TIMEOUT)
						release(&q.states[slot], FREE);
					else
						lost = 1;
					if (s != 0)
						atomicMin(&failed, (u64)r << 32 | s);
				}
			}
		}
		__syncthreads();
		if (t == 0) {
			if (over == 1 && lost)
				q.dead = PROTOCOL; // a command was completed twice, another one never
			outcomes[BIN_BLOCKS + all] = failed;
		}
		__syncthreads();
	}
}

constexpr int SLOTS = 1024; // of a block, at most

// Submits and completes: one block owns a queue, one thread a slot. Every turn fills the slots
// and waits for all of them.
extern "C" __global__ void __launch_bounds__(SLOTS) nvme_read(Queue *queues, u32 drives, u32 per, const Request *requests, const u32 *order, const u32 *starts, unsigned char *to,
                                     u32 *status, u64 *outcomes, u64 slot_bytes, u32 shift, u64 timeout, const u32 *control, u64 per_drive, u32 space) {
	__shared__ u32 fates[SLOTS];
	__shared__ u32 dead;
	__shared__ u64 failed;
	u32 t = threadIdx.x, lane = t % 32, warp = t / 32, all = blockIdx.x, d = all / per;
	Queue &q = queues[all];
	u32 depth = (u32)q.depth, each = min(depth - 1, blockDim.x);
	Share share(starts[d + 1] - starts[d], all % per, per, 0);
	if (t == 0) {
		dead = (u32)q.dead;
		failed = NO_FAILURE;
	}
	__syncthreads();
	u64 tail = q.tail, head = q.head;
	for (u32 from = 0; from < share.count; from += each) {
		u32 now = min(each, share.count - from);
		bool ended = dead != 0;
		__syncthreads();
		if (t < now) {
			fates[t] = ended ? dead : ALL;
			if (!ended) {
				const Request r = requests[order[starts[d] + share.first + (from + t) * per]];
				write_read(q, (u32)((tail + t) % depth), t, space, r.block % per_drive, r.blocks, shift);
				__threadfence_system();
			}
		}
		__syncthreads();
		if (!ended && t == 0)
			ring(q.submission, (u32)((tail + now) % depth));
		if (!ended && t < now) {
			u32 word, fate = 0;
			Wait wait(timeout, control);
			// A queue that died for another slot gives this one no completion any more.
			while (!completed(q, head + t, &word) && (fate = *(volatile u32 *)&dead) == 0 && (fate = wait.over()) == 0)
				;
			if (fate == 0) {
				u32 slot = word & 0xffff;
				if (slot >= now || atomicCAS(&fates[slot], ALL, word >> 17) != ALL)
					fate = PROTOCOL;
			}
			if (fate != 0)
				atomicMax(&dead, fate);
		}
		__syncthreads();
		if (!ended) {
			if (dead == 0) {
				tail += now;
				head += now;
				if (t == 0)
					ring(q.completion, (u32)(head % depth));
			} else if (t < now && fates[t] == ALL)
				fates[t] = dead;
		}
		__syncthreads();
		for (u32 j = warp; j < now; j += blockDim.x / 32) {
			u32 r = order[starts[d] + share.first + (from + j) * per], s = fates[j];
			if (s == 0)
				bring(to + requests[r].offset, q.data + j * slot_bytes, requests[r].blocks << shift, lane);
			if (lane == 0) {
				status[r] = s;
				if (s != 0)
					atomicMin(&failed, (u64)r << 32 | s);
			}
		}
		__syncthreads();
	}
	if (t == 0) {
		q.tail = tail;
		q.head = head;
		q.dead = dead;
		outcomes[BIN_BLOCKS + all] = failed;
	}
}
