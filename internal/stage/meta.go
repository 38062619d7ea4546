package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Names of the bookkeeping files inside a stage's directory.
const (
	MetaFile    = "meta.json"
	RunFile     = "run.json"
	journalFile = "journal.json"
	lockFile    = "lock"
)

// Parent roles, as they appear in meta.json and in messages.
const (
	RoleDataset = "dataset"
	RoleSamples = "samples"
	RolePack    = "pack"
)

// Format names a directory format and its version.
type Format struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// String returns the format as messages spell it.
func (f Format) String() string { return fmt.Sprintf("%s, version %d", f.Name, f.Version) }

// kind returns the format's name as users call it.
func (f Format) kind() string { return strings.TrimPrefix(f.Name, "diskgnn.") }

// shardSuffix ends the format's name of one part of a directory.
const shardSuffix = "-shard"

// Shard returns the format of the shards of a directory of this format: package
// shard makes them.
func (f Format) Shard() Format { return Format{f.Name + shardSuffix, f.Version} }

// Whole returns the format of the directory that shards of this format make, and
// whether it is a format of shards at all.
func (f Format) Whole() (Format, bool) {
	name, ok := strings.CutSuffix(f.Name, shardSuffix)
	return Format{name, f.Version}, ok
}

// File describes one file of a finished directory. The checksum is the SHA-256
// of the file's table of CRCs, or, for a file without one, of its bytes.
type File struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	Checksum string `json:"checksum"`
}

// Meta is the content of meta.json: what a finished directory is. It holds
// nothing that depends on when, where or how fast the directory was made.
type Meta struct {
	Format Format `json:"format"`
	// Params are the content parameters: those that decide the bytes.
	Params json.RawMessage `json:"params"`
	// Parents maps a role to the fingerprint of the directory that played it.
	Parents map[string]string `json:"parents,omitempty"`
	// Facts are counts that readers need and the content decides.
	Facts json.RawMessage `json:"facts,omitempty"`
	Files []File          `json:"files"`
	// Fingerprint is the SHA-256 over all the above.
	Fingerprint string `json:"fingerprint"`
}

// canonical returns v as JSON with sorted keys, no spaces, and numbers as written.
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree) // maps are marshalled with sorted keys
}

func hashJSON(v any) (string, error) {
	b, err := canonical(v)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// fingerprint computes Meta.Fingerprint from the other fields.
func (m Meta) fingerprint() (string, error) {
	m.Fingerprint = ""
	m.Files = slices.Clone(m.Files)
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return hashJSON(m)
}

// DecodeParams fills v from the content parameters.
func (m *Meta) DecodeParams(v any) error { return decode(m.Params, v, "params") }

// DecodeFacts fills v from the facts.
func (m *Meta) DecodeFacts(v any) error { return decode(m.Facts, v, "facts") }

func decode(raw json.RawMessage, v any, what string) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.New(fault.ErrCorrupt, "%s: %s: %v", MetaFile, what, err)
	}
	return nil
}

// File returns the description of a file.
func (m *Meta) File(name string) (File, bool) {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return m.Files[i], true
}

// Open reads and checks the meta.json of a finished directory: the format, the
// fingerprint, and that every file is there with its size. It does not read the
// files. kind, like "dataset", names in messages what the user meant to give. Where
// the reader knows several versions, the later ones follow the first.
func Open(fsys vfs.FS, dir, kind string, want Format, later ...Format) (*Meta, error) {
	m, err := ReadMeta(fsys, dir, kind)
	if err != nil {
		return nil, err
	}
	if m.Format.Name == want.Shard().Name {
		return nil, fault.New(fault.ErrInput, "%s is one shard of a %s: make the whole of all its shards with diskgnn merge, and give that", dir, kind)
	}
	if m.Format.Name != want.Name {
		return nil, fault.New(fault.ErrInput, "%s is a %s directory, not a %s", dir, m.Format.kind(), kind)
	}
	if m.Format != want && !slices.Contains(later, m.Format) {
		reads := fmt.Sprint(want.Version)
		for _, f := range later {
			reads += fmt.Sprintf(" and %d", f.Version)
		}
		return nil, fault.New(fault.ErrVersion, "%s: %s is version %d, this program reads version %s: make it again, or use the program that made it", dir, m.Format.Name, m.Format.Version, reads)
	}
	if err := m.checkSizes(fsys, dir); err != nil {
		return nil, err
	}
	return m, nil
}

// checkSizes makes sure that every file is there with its size, and a file.
func (m *Meta) checkSizes(fsys vfs.FS, dir string) error {
	for _, f := range m.Files {
		st, err := fsys.Stat(filepath.Join(dir, f.Name))
		if err != nil {
			return fault.New(fault.ErrCorrupt, "%s: %s is missing: %v", dir, f.Name, err)
		}
		if !st.Mode().IsRegular() {
			return fault.New(fault.ErrCorrupt, "%s: %s is no regular file (%s)", dir, f.Name, st.Mode())
		}
		if st.Size() != f.Size {
			return fault.New(fault.ErrCorrupt, "%s: %s has %d bytes instead of %d", dir, f.Name, st.Size(), f.Size)
		}
	}
	return nil
}

// ReadMeta reads the meta.json of a finished directory of any format and checks
// its fingerprint.
func ReadMeta(fsys vfs.FS, dir, kind string) (*Meta, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, MetaFile))
	if err != nil {
		return nil, notFinished(fsys, dir, kind, err)
	}
	m := new(Meta)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %v", filepath.Join(dir, MetaFile), err)
	}
	fp, err := m.fingerprint()
	if err != nil {
		return nil, err
	}
	if fp != m.Fingerprint {
		return nil, fault.New(fault.ErrCorrupt, "%s does not match its own fingerprint: it was edited or damaged", filepath.Join(dir, MetaFile))
	}
	for _, f := range m.Files {
		if f.Name == "" || !fs.ValidPath(f.Name) {
			return nil, fault.New(fault.ErrCorrupt, "%s: file name %q", filepath.Join(dir, MetaFile), f.Name)
		}
	}
	return m, nil
}

// notFinished explains why a directory has no meta.json.
func notFinished(fsys vfs.FS, dir, kind string, err error) error {
	if ok, _ := vfs.Exists(fsys, dir); ok {
		return fault.New(fault.ErrInput, "%s is no finished %s: it has no readable %s (%v)", dir, kind, MetaFile, err)
	}
	if ok, _ := vfs.Exists(fsys, dir+partialSuffix); ok {
		return fault.New(fault.ErrInput, "%s is not finished yet: %s%s is under way or was interrupted; run its command again to resume", dir, dir, partialSuffix)
	}
	return fault.New(fault.ErrInput, "no %s at %s", kind, dir)
}

// CheckParent reports whether child was made from a parent with the given
// fingerprint, and names both when it was not.
func CheckParent(childDir string, child *Meta, role, parentDir, parent string) error {
	want, ok := child.Parents[role]
	if !ok {
		return fault.New(fault.ErrLineage, "%s records no %s (it records %s)", childDir, role, strings.Join(slices.Sorted(maps.Keys(child.Parents)), ", "))
	}
	if want != parent {
		return fault.New(fault.ErrLineage, "%s was made from the %s %.12s…, but %s is %.12s…: it changed since, or is another one", childDir, role, want, parentDir, parent)
	}
	return nil
}
