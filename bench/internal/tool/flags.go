package tool

import "flag"

// Flag returns the program that the flag -bin will name, its progress hidden.
func Flag() *Tool {
	t := &Tool{Quiet: true}
	flag.StringVar(&t.Binary, "bin", "bin/diskgnn", "the program")
	return t
}
