//go:build !race

package gnn

const racing = false
