// This cuda.h is found before CUDA's own. gorgonia.org/cu v0.9.6 calls five functions
// with the arguments that they took before CUDA 13: it gets functions that still do.
// They are no macros with arguments, which cgo cannot call.
#ifndef DISKGNN_CUDA_H
#define DISKGNN_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000

static inline CUmemLocation cu12Location(CUdevice d) {
	CUmemLocation at = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d};
	if (d == CU_DEVICE_CPU) {
		at.type = CU_MEM_LOCATION_TYPE_HOST;
		at.id = 0;
	}
	return at;
}

static inline CUresult cu12CtxCreate(CUcontext *c, unsigned flags, CUdevice d) { return cuCtxCreate_v4(c, NULL, flags, d); }
#undef cuCtxCreate
#define cuCtxCreate cu12CtxCreate

static inline CUresult cu12MemAdvise(CUdeviceptr p, size_t n, CUmem_advise a, CUdevice d) {
	return cuMemAdvise_v2(p, n, a, cu12Location(d));
}
#undef cuMemAdvise
#define cuMemAdvise cu12MemAdvise

static inline CUresult cu12MemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice d, CUstream s) {
	return cuMemPrefetchAsync_v2(p, n, cu12Location(d), 0, s);
}
#undef cuMemPrefetchAsync
#define cuMemPrefetchAsync cu12MemPrefetchAsync

static inline CUresult cu12GraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	return cuGraphAddDependencies_v2(g, from, to, NULL, n);
}
#undef cuGraphAddDependencies
#define cuGraphAddDependencies cu12GraphAddDependencies

static inline CUresult cu12GraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
	return cuGraphGetEdges_v2(g, from, to, NULL, n);
}
#undef cuGraphGetEdges
#define cuGraphGetEdges cu12GraphGetEdges

#endif
#endif
