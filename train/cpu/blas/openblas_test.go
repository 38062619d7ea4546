//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package blas

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	if v := version("OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH"); v != "0.3.21" {
		t.Error(v)
	}
	if v := version("OpenBLAS"); v != "of unknown version" {
		t.Error(v)
	}
}

func TestMissingLibrary(t *testing.T) {
	t.Setenv("DISKGNN_OPENBLAS", "/nowhere/libopenblas.so")
	if _, err := loadOpenBLAS(); err == nil || !strings.Contains(err.Error(), "/nowhere/libopenblas.so") {
		t.Errorf("a library that is not there: %v", err)
	}
}
