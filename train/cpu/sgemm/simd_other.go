//go:build !amd64 || noasm

package sgemm

// supported is empty: there are no kernels for this processor.
var supported []instructions

func transpose8(*float32, int, *float32, int, int) { panic("sgemm: no kernels") }
