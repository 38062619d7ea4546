//go:build gpu && cgo && linux && amd64

package gpuqueue

import "embed"

// The kernels, compiled by make.
//
//go:embed *.fatbin
var images embed.FS

func image(file string) ([]byte, error) { return images.ReadFile(file + ".fatbin") }
