// cuBLAS, opened when it is needed: neither its headers nor the library, which is half
// a gigabyte, are wanted before. What is used of it has been the same since CUDA 11.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

enum { BLAS_OP_N = 0, BLAS_OP_T = 1, BLAS_R_32F = 0, BLAS_COMPUTE_32F = 68, BLAS_COMPUTE_BF16 = 75, BLAS_COMPUTE_TF32 = 77, BLAS_ALGORITHM = -1 };

typedef struct {
	int (*create)(void **);
	int (*destroy)(void *);
	int (*setStream)(void *, void *);
	int (*setWorkspace)(void *, void *, size_t);
	int (*getVersion)(void *, int *);
	int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int,
	            int, int);
	int (*batch)(void *, int, int, int, int, int, const void *, const void *, int, int, long long, const void *, int, int, long long,
	             const void *, void *, int, int, long long, int, int, int);
} blasLibrary;

// Opens a library. It returns what is wrong with it, or NULL.
static inline const char *blasOpen(blasLibrary *l, const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return dlerror();
	struct {
		void **to;
		const char *name;
	} want[] = {
	    {(void **)&l->create, "cublasCreate_v2"},         {(void **)&l->destroy, "cublasDestroy_v2"},
	    {(void **)&l->setStream, "cublasSetStream_v2"},   {(void **)&l->setWorkspace, "cublasSetWorkspace_v2"},
	    {(void **)&l->getVersion, "cublasGetVersion_v2"}, {(void **)&l->gemm, "cublasGemmEx"},
	    {(void **)&l->batch, "cublasGemmStridedBatchedEx"},
	};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		if (!(*want[i].to = dlsym(lib, want[i].name)))
			return dlerror();
	return NULL;
}

// Makes a library handle that works on a stream.
static inline int blasCreate(blasLibrary *l, uintptr_t *b, uintptr_t stream, uint64_t workspace, size_t bytes) {
	int r = l->create((void **)b);
	if (r)
		return r;
	if (!(r = l->setStream((void *)*b, (void *)stream)))
		r = l->setWorkspace((void *)*b, (void *)workspace, bytes);
	if (r)
		l->destroy((void *)*b);
	return r;
}

static inline int blasDestroy(blasLibrary *l, uintptr_t b) { return l->destroy((void *)b); }

static inline int blasVersion(blasLibrary *l, uintptr_t b) {
	int v = 0;
	return l->getVersion((void *)b, &v) ? 0 : v;
}

static inline int blasGemm(blasLibrary *l, uintptr_t h, int ta, int tb, int m, int n, int k, float alpha, uint64_t a, int lda, uint64_t b,
                           int ldb, float beta, uint64_t c, int ldc, int compute) {
	return l->gemm((void *)h, ta, tb, m, n, k, &alpha, (void *)a, BLAS_R_32F, lda, (void *)b, BLAS_R_32F, ldb, &beta, (void *)c, BLAS_R_32F,
	               ldc, compute, BLAS_ALGORITHM);
}

// The same for some products, whose matrices lie so many elements apart.
static inline int blasBatch(blasLibrary *l, uintptr_t h, int ta, int tb, int m, int n, int k, float alpha, uint64_t a, int lda,
                            long long nextA, uint64_t b, int ldb, long long nextB, float beta, uint64_t c, int ldc, long long nextC, int count,
                            int compute) {
	return l->batch((void *)h, ta, tb, m, n, k, &alpha, (void *)a, BLAS_R_32F, lda, nextA, (void *)b, BLAS_R_32F, ldb, nextB, &beta, (void *)c,
	                BLAS_R_32F, ldc, nextC, count, compute, BLAS_ALGORITHM);
}
