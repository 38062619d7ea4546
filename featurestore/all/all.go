// Package all lists the stores of the program diskgnn. Only its main package chooses this list; packages
// below take a stores.List.
package all

import (
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/gnndrive"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/mmap"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/rows"
	"diskgnn/featurestore/stores"
)

// Builtin returns the stores of this program.
func Builtin() stores.List {
	return stores.List{packed.Design(), memory.Design(), rows.Design(), ginex.Design(), gnndrive.Design(), agnes.Design(), gids.Design(),
		hyperion.Design(), marius.Design(), mmap.Design()}
}
