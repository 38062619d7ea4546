//go:build race

package gnn

// racing: the detector lets pools forget what they hold, so that steps allocate more.
const racing = true
