// Command store-foo is diskgnn with one more store: foo, which is written in this module.
//
//	go build -o diskgnn . && ./diskgnn train --store foo --dataset graph --fanout 10,10 --out run
//
// It is a template for stores outside the source of diskgnn: docs/howto/own-store.md explains it. In a
// copy elsewhere, the replace line of go.mod names the directory of diskgnn's source.
package main

import (
	"diskgnn/commands"
	"diskgnn/featurestore/all"
)

func main() { commands.Main(append(all.Builtin(), design())) }
