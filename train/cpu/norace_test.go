//go:build !race

package cpu

const racing = false
