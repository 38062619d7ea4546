//go:build race

package cpu

// racing: the detector lets pools forget what they hold, so that steps allocate more.
const racing = true
