//go:build race

package table

// racing: the detector makes pools forget what they hold.
const racing = true
