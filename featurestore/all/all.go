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

// Auto is the value of --store that selects a store by the directories.
const Auto = stores.Auto

// Places are the directories of a run.
type Places = stores.Places

// Builtin returns the stores of this program.
func Builtin() stores.List {
	return stores.List{packed.Design(), memory.Design(), rows.Design(), ginex.Design(), gnndrive.Design(), agnes.Design(), gids.Design(),
		hyperion.Design(), marius.Design(), mmap.Design()}
}
