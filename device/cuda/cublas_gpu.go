//go:build gpu && cgo && linux && amd64

package cuda

// #include <stdlib.h>
// #include "cublas_gpu.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// cublas is the library, once it is open.
var cublas struct {
	functions C.blasLibrary
	path      string
}

var openCUBLAS = sync.OnceValue(func() error {
	var errs []error
	names := []string{"libcublas.so.13", "libcublas.so.12"}
	for _, path := range LibraryPaths("DISKGNN_CUBLAS", names, names) {
		c := C.CString(path)
		why := C.blasOpen(&cublas.functions, c)
		C.free(unsafe.Pointer(c))
		if why == nil {
			cublas.path = path
			return nil
		}
		errs = append(errs, errors.New(C.GoString(why)))
	}
	return fmt.Errorf("no cuBLAS (DISKGNN_CUBLAS may name it): %w", errors.Join(errs...))
})

func cublasStatus(call string, r C.int) error {
	if r == 0 {
		return nil
	}
	const allocFailed, executionFailed = 3, 13
	return &status{call: call, why: fmt.Sprintf("status %d", int(r)), outOfMemory: r == allocFailed, lost: r == executionFailed}
}

func (cuda) blasWorkspace() int64 { return BLASWorkspace }

func (cuda) newBLAS(s handle, workspace uint64, bytes int64) (handle, error) {
	if err := openCUBLAS(); err != nil {
		return 0, err
	}
	var b C.uintptr_t
	err := cublasStatus("cublasCreate", C.blasCreate(&cublas.functions, &b, C.uintptr_t(s), C.uint64_t(workspace), C.size_t(bytes)))
	return handle(b), err
}

func (cuda) dropBLAS(b handle) error {
	return cublasStatus("cublasDestroy", C.blasDestroy(&cublas.functions, C.uintptr_t(b)))
}

func (cuda) blasVersion(b handle) string {
	return fmt.Sprintf("cuBLAS %d (%s)", int(C.blasVersion(&cublas.functions, C.uintptr_t(b))), cublas.path)
}

func (cuda) sgemm(b handle, g *gemm) error {
	compute := C.int(C.BLAS_COMPUTE_32F)
	switch g.precision {
	case TF32:
		compute = C.BLAS_COMPUTE_TF32
	case BF16:
		compute = C.BLAS_COMPUTE_BF16
	}
	op := func(trans bool) C.int {
		if trans {
			return C.BLAS_OP_T
		}
		return C.BLAS_OP_N
	}
	if g.count > 0 {
		return cublasStatus("cublasGemmStridedBatchedEx", C.blasBatch(&cublas.functions, C.uintptr_t(b), op(g.transA), op(g.transB), C.int(g.m), C.int(g.n), C.int(g.k),
			C.float(g.alpha), C.uint64_t(g.a), C.int(g.lda), C.longlong(g.nextA), C.uint64_t(g.b), C.int(g.ldb), C.longlong(g.nextB),
			C.float(g.beta), C.uint64_t(g.c), C.int(g.ldc), C.longlong(g.nextC), C.int(g.count), compute))
	}
	return cublasStatus("cublasGemmEx", C.blasGemm(&cublas.functions, C.uintptr_t(b), op(g.transA), op(g.transB), C.int(g.m), C.int(g.n), C.int(g.k),
		C.float(g.alpha), C.uint64_t(g.a), C.int(g.lda), C.uint64_t(g.b), C.int(g.ldb), C.float(g.beta), C.uint64_t(g.c), C.int(g.ldc), compute))
}
