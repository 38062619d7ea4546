//go:build !((linux || darwin || freebsd) && (amd64 || arm64))

package blas

import "errors"

func openOpenBLAS() (*Library, error) {
	return nil, errors.New("no OpenBLAS support on this platform")
}
