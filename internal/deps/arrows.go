package deps

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
)

// An Arrow means that one room of a folder uses another. The rooms of a folder are the Go files of its
// package, and its subfolders with all files below them. A file uses another file of its package if it
// names a constant, variable, type, function, method or field that the other declares. It uses a folder
// if it imports a package there. A folder uses a file if a package in it names a declaration of the file.
// Tests, generated files, and files that are not in a build for linux/amd64 without cgo are no rooms.
//
// The rooms have an order, from the ground up. An arrow runs back if its user does not stand above the
// used room. The order has few arrows that run back: it begins as a greedy order (Eades, Lin and Smyth
// 1993, A fast and effective heuristic for the feedback arc set problem); then single rooms are moved
// until no move saves an arrow. The number is an upper bound of the minimum, and the same for the same
// files.
type Arrow struct{ From, To string }

// Rooms returns the rooms of a folder, as paths relative to it, and the arrows between them, each once.
func Rooms(all []*Source, folder string) (rooms []string, arrows []Arrow) {
	r := drawing{folder: folder, rooms: map[string]bool{}, arrows: map[Arrow]bool{}}
	var own []*Source
	for _, s := range all {
		if s.Test || s.Generated || !s.Usual() || s.TestOnly() || !within(s.Pkg, folder) {
			continue
		}
		r.rooms[r.room(s)] = true
		if s.Pkg == folder {
			own = append(own, s)
		}
	}
	r.files(own)
	for _, s := range all {
		if r.rooms[r.room(s)] && !s.Test {
			r.imports(s)
		}
	}
	return slices.Sorted(maps.Keys(r.rooms)), slices.SortedFunc(maps.Keys(r.arrows), func(a, b Arrow) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
}

// drawing collects the rooms and arrows of a folder.
type drawing struct {
	folder   string
	rooms    map[string]bool
	arrows   map[Arrow]bool
	declared map[string]string // by name in the folder's package: the declaring file
}

// room returns the room of a source, or "" if the source is outside the folder.
func (r *drawing) room(s *Source) string {
	if s.Pkg == r.folder {
		return path.Base(s.Path)
	}
	if !within(s.Pkg, r.folder) {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(s.Pkg, r.folder+"/"), "/")
	return first + "/"
}

func (r *drawing) add(from, to string) {
	if from != to && r.rooms[from] && r.rooms[to] {
		r.arrows[Arrow{from, to}] = true
	}
}

// files adds the arrows between the files of the folder's package. Types of other packages are not
// loaded, so their fields and methods are no arrows.
func (r *drawing) files(own []*Source) {
	r.declared = map[string]string{}
	if len(own) == 0 {
		return
	}
	var files []*ast.File
	of := map[*token.File]string{}
	for _, s := range own {
		files = append(files, s.File)
		of[s.Fset.File(s.File.Package)] = path.Base(s.Path)
	}
	fset := own[0].Fset
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(r.folder, fset, files, info) // its errors are about packages that are not loaded
	if pkg == nil {
		return
	}
	for _, name := range pkg.Scope().Names() {
		r.declared[name] = of[fset.File(pkg.Scope().Lookup(name).Pos())]
	}
	for use, o := range info.Uses {
		if o.Pkg() != pkg || !shared(o, pkg) {
			continue
		}
		r.add(of[fset.File(use.Pos())], of[fset.File(o.Pos())])
	}
}

// shared reports whether other files of the package can name an object, that is, it is not local.
func shared(o types.Object, pkg *types.Package) bool {
	if v, ok := o.(*types.Var); ok && v.IsField() {
		return true
	}
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == pkg.Scope()
}

// imports adds the arrows of a source's imports.
func (r *drawing) imports(s *Source) {
	from := r.room(s)
	for _, im := range s.Imports {
		to, ours := strings.CutPrefix(im, Module+"/")
		switch {
		case !ours || !within(to, r.folder):
		case to != r.folder:
			first, _, _ := strings.Cut(strings.TrimPrefix(to, r.folder+"/"), "/")
			r.add(from, first+"/")
		default:
			name := path.Base(to)
			ast.Inspect(s.File, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok {
					if id, ok := x.X.(*ast.Ident); ok && id.Name == name {
						r.add(from, r.declared[x.Sel.Name])
					}
				}
				return true
			})
		}
	}
}

// nothing is an importer that returns empty packages.
type nothing struct{}

func (nothing) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}

// Back puts the rooms in an order with few arrows that run back, as Arrow describes, and returns these
// arrows: their user stands below the used room.
func Back(rooms []string, arrows []Arrow) []Arrow {
	order := greedy(rooms, arrows)
	for improve(order, arrows) {
	}
	at := positions(order)
	var back []Arrow
	for _, a := range arrows {
		if at[a.From] < at[a.To] {
			back = append(back, a)
		}
	}
	return back
}

func positions(order []string) map[string]int {
	at := make(map[string]int, len(order))
	for i, room := range order {
		at[room] = i
	}
	return at
}

// greedy orders rooms from the ground up. Of the remaining rooms, a room that uses no other one comes
// first, and a room that no other one uses comes last. If there is neither, the room with the largest
// surplus of users over used rooms comes first.
func greedy(rooms []string, arrows []Arrow) []string {
	left := map[string]bool{}
	for _, room := range rooms {
		left[room] = true
	}
	var low, high []string
	for len(left) > 0 {
		uses, used := map[string]int{}, map[string]int{}
		for _, a := range arrows {
			if left[a.From] && left[a.To] {
				uses[a.From]++
				used[a.To]++
			}
		}
		var next string
		top := false
		for _, room := range slices.Sorted(maps.Keys(left)) {
			if uses[room] == 0 {
				next, top = room, false
				break
			}
			if used[room] == 0 {
				next, top = room, true
				continue
			}
			if next == "" || !top && used[room]-uses[room] > used[next]-uses[next] {
				next = room
			}
		}
		if delete(left, next); top {
			high = append(high, next)
		} else {
			low = append(low, next)
		}
	}
	slices.Reverse(high)
	return append(low, high...)
}

// improve moves one room to the place with the fewest arrows that run back, and reports whether that saved
// an arrow.
func improve(order []string, arrows []Arrow) bool {
	at := positions(order)
	n := len(order)
	out, in := make([][]int, n), make([][]int, n)
	for _, a := range arrows {
		f, t := at[a.From], at[a.To]
		out[f], in[t] = append(out[f], t), append(in[t], f)
	}
	for i := range order {
		best, to := 0, i
		saved := 0
		for j := i + 1; j < n; j++ { // above j: arrows to j no longer run back, arrows from j do
			saved += count(out[i], j) - count(in[i], j)
			if saved > best {
				best, to = saved, j
			}
		}
		saved = 0
		for j := i - 1; j >= 0; j-- {
			saved += count(in[i], j) - count(out[i], j)
			if saved > best {
				best, to = saved, j
			}
		}
		if to != i {
			room := order[i]
			copy(order[i:], order[i+1:])
			copy(order[to+1:], order[to:n-1])
			order[to] = room
			return true
		}
	}
	return false
}

func count(list []int, v int) (n int) {
	for _, x := range list {
		if x == v {
			n++
		}
	}
	return n
}
