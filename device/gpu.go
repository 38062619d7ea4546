package device

import "diskgnn/device/cuda"

// ErrNoDevice says that there is no GPU to compute with, and why.
var ErrNoDevice = cuda.ErrNoDevice

// GPU describes a GPU.
type GPU = cuda.Info

// GPUs describes the GPUs of this machine, of which there is at least one if there is
// no error. A program that was built without support for them has none.
func GPUs() ([]GPU, error) { return cuda.Devices() }
