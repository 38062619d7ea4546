//go:build race

package train

// racing: the detector allocates by itself.
const racing = true
