package batchcodec

// HeadSize returns the bytes of a byte form before its first array.
func HeadSize(layers int) int64 { return headBytes + int64(layers)*layerBytes }
