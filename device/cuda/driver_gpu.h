// What gorgonia.org/cu lacks of the driver API. Handles travel as integers.
#include <cuda.h>
#include <stdint.h>

static inline const char *resultName(CUresult r) {
	const char *name;
	return cuGetErrorName(r, &name) == CUDA_SUCCESS ? name : r == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "unknown CUDA error";
}

// Whether a result says that the context is of no more use.
static inline int resultIsSticky(CUresult r) {
	switch (r) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_UNKNOWN:
		return 1;
	default:
		return 0;
	}
}

static inline CUresult moduleLoad(uintptr_t *m, const void *image) { return cuModuleLoadData((CUmodule *)m, image); }
static inline CUresult moduleUnload(uintptr_t m) { return cuModuleUnload((CUmodule)m); }

static inline CUresult launch(uintptr_t f, unsigned gx, unsigned gy, unsigned bx, unsigned by, uintptr_t s, uint64_t *args, int count) {
	void *at[32];
	if (count > 32)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < count; i++)
		at[i] = &args[i];
	return cuLaunchKernel((CUfunction)f, gx, gy, 1, bx, by, 1, 0, (CUstream)s, at, NULL);
}

static inline CUresult captureBegin(uintptr_t s) { return cuStreamBeginCapture((CUstream)s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); }
static inline CUresult captureEnd(uintptr_t s, uintptr_t *g) { return cuStreamEndCapture((CUstream)s, (CUgraph *)g); }
static inline CUresult graphInstantiate(uintptr_t g, uintptr_t *exec) { return cuGraphInstantiate((CUgraphExec *)exec, (CUgraph)g, 0); }
static inline CUresult graphUpdate(uintptr_t exec, uintptr_t g) {
	CUgraphExecUpdateResultInfo info;
	return cuGraphExecUpdate((CUgraphExec)exec, (CUgraph)g, &info);
}
static inline CUresult graphDrop(uintptr_t g) { return cuGraphDestroy((CUgraph)g); }
static inline CUresult graphExecDrop(uintptr_t exec) { return cuGraphExecDestroy((CUgraphExec)exec); }
static inline CUresult graphRun(uintptr_t exec, uintptr_t s) { return cuGraphLaunch((CUgraphExec)exec, (CUstream)s); }
