//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package blas

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/klauspost/cpuid/v2"
)

// Names under which OpenBLAS with 32-bit integers is installed.
var openBLASNames = map[string][]string{
	"linux":   {"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"},
	"freebsd": {"libopenblas.so.0", "libopenblas.so"},
	"darwin":  {"/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib", "libopenblas.dylib"},
}

var openOnce = sync.OnceValues(loadOpenBLAS)

// openOpenBLAS loads the library once per process: it is never unloaded. A
// DISKGNN_OPENBLAS that names something else than at the first call is ignored.
func openOpenBLAS() (*Library, error) { return openOnce() }

func loadOpenBLAS() (*Library, error) {
	names := openBLASNames[runtime.GOOS]
	if path := os.Getenv("DISKGNN_OPENBLAS"); path != "" {
		names = []string{path}
	}
	defer chooseCore()()
	var failed error
	for _, name := range names {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			lib, err := bind(handle)
			if err == nil {
				return lib, nil
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("no OpenBLAS found (%s)", strings.Join(names, ", "))
}

// chooseCore tells an OpenBLAS about to be loaded which kernels to use, and
// returns a function that withdraws the advice. A library older than the processor
// does not recognise it and falls back to kernels for SSE, at a quarter of the
// speed, so the choice is made from the instructions that the processor has. The
// sgemm of every later core with AVX-512 is SkylakeX's. A choice of the user's
// stands.
func chooseCore() (withdraw func()) {
	const name = "OPENBLAS_CORETYPE"
	core := ""
	switch {
	case cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512CD):
		core = "SkylakeX"
	case cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3):
		core = "Haswell"
	}
	if _, set := os.LookupEnv(name); set || core == "" || os.Setenv(name, core) != nil {
		return func() {}
	}
	return func() { os.Unsetenv(name) }
}

func bind(handle uintptr) (*Library, error) {
	sgemm, err := purego.Dlsym(handle, "sgemm_")
	if err != nil {
		return nil, err
	}
	for _, symbol := range []string{"openblas_set_num_threads", "openblas_get_config", "openblas_get_corename"} {
		if _, err := purego.Dlsym(handle, symbol); err != nil {
			return nil, fmt.Errorf("not OpenBLAS: %w", err)
		}
	}
	var (
		setNumThreads       func(int32)
		getConfig, coreName func() string
	)
	purego.RegisterLibFunc(&setNumThreads, handle, "openblas_set_num_threads")
	purego.RegisterLibFunc(&getConfig, handle, "openblas_get_config")
	purego.RegisterLibFunc(&coreName, handle, "openblas_get_corename")
	config := getConfig()
	if strings.Contains(config, "USE64BITINT") {
		return nil, errors.New("built with 64-bit integers")
	}
	setNumThreads(1)
	f := &fortran{sgemm: sgemm}
	f.pool.New = func() any { return new(arguments) }
	return &Library{kind: OpenBLAS, name: fmt.Sprintf("openblas %s (%s)", version(config), coreName()), bytes: openBLASBytes, sgemm: f.call}, nil
}

// version finds the version in a configuration such as "OpenBLAS 0.3.21 NO_LAPACKE …".
func version(config string) string {
	for _, word := range strings.Fields(config) {
		if word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return "of unknown version"
}

// openBLASBytes is the bytes that OpenBLAS touches for its packed operands, for every thread.
const openBLASBytes = 4 << 20

// fortran calls OpenBLAS through its Fortran symbol: every argument is a pointer,
// so the plain system-call path suffices, which allocates nothing.
type fortran struct {
	sgemm uintptr
	pool  sync.Pool // *arguments
}

// arguments are one call's arguments, in memory that does not move. The operands
// are kept as pointers so that they too are on the heap and alive.
type arguments struct {
	transA, transB         byte
	m, n, k, lda, ldb, ldc int32
	alpha, beta            float32
	a, b, c                unsafe.Pointer
	vector                 [15]uintptr
}

// call computes the row-major product as the column-major Cᵀ = op(B)ᵀ·op(A)ᵀ.
func (f *fortran) call(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	g := f.pool.Get().(*arguments)
	g.transA, g.transB = transposeFlag(tB), transposeFlag(tA)
	g.m, g.n, g.k = int32(n), int32(m), int32(k)
	g.lda, g.ldb, g.ldc = int32(ldb), int32(lda), int32(ldc)
	g.alpha, g.beta = alpha, beta
	g.a, g.b, g.c = unsafe.Pointer(unsafe.SliceData(b)), unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(c))
	g.vector = [15]uintptr{
		address(&g.transA), address(&g.transB),
		address(&g.m), address(&g.n), address(&g.k),
		address(&g.alpha), uintptr(g.a), address(&g.lda), uintptr(g.b), address(&g.ldb),
		address(&g.beta), uintptr(g.c), address(&g.ldc),
		1, 1, // lengths of the two character arguments
	}
	purego.SyscallN(f.sgemm, g.vector[:]...)
	runtime.KeepAlive(g)
	g.a, g.b, g.c = nil, nil, nil
	f.pool.Put(g)
}

func transposeFlag(t bool) byte {
	if t {
		return 'T'
	}
	return 'N'
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
