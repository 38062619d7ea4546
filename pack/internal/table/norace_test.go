//go:build !race

package table

const racing = false
