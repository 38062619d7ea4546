// Command diskgnn trains graph neural networks on graphs with features that do not fit in memory: package
// commands, with the stores of package featurestore/all.
package main

import (
	"diskgnn/commands"
	"diskgnn/featurestore/all"
)

func main() { commands.Main(all.Builtin()) }
