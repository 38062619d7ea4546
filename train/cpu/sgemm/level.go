package sgemm

import (
	"os"
	"slices"
	"strings"

	"diskgnn/internal/fault"
)

// inUse is nil where there are no kernels. It changes only in Use.
var inUse = initial(os.Getenv("DISKGNN_SIMD"))

// initial returns the kind that the environment names, if the processor has it, none if that
// is "plain", else the best that the processor has.
func initial(asked string) *instructions {
	if asked == "plain" || len(supported) == 0 {
		return nil
	}
	if i := slices.Index(Kinds(), asked); i >= 0 {
		return &supported[i]
	}
	return &supported[len(supported)-1]
}

// Kind names the instructions in use, "avx2" or "avx512". It is empty where the processor
// has neither, or the environment variable DISKGNN_SIMD is "plain".
func Kind() string {
	if inUse == nil {
		return ""
	}
	return inUse.name
}

// Kinds returns the kinds that this processor can run, the best last.
func Kinds() []string {
	names := make([]string, len(supported))
	for i := range supported {
		names[i] = supported[i].name
	}
	return names
}

// Use selects a kind for the whole process. It is for tests and must not be called
// while a product is computed.
func Use(kind string) error {
	i := slices.Index(Kinds(), kind)
	if i < 0 {
		return fault.New(fault.ErrUsage, "sgemm: no %q on this machine (it has %s)", kind, strings.Join(Kinds(), ", "))
	}
	inUse = &supported[i]
	return nil
}
