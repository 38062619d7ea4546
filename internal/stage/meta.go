package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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

// Prediction is the kind of the files of predictions, which are directories only in shards.
const Prediction = "prediction"

// Format names a directory format and its version.
type Format struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// String returns the format in the form of messages: "diskgnn.pack, version 3".
func (f Format) String() string { return fmt.Sprintf("%s, version %d", f.Name, f.Version) }

// kind returns the format's name as users call it.
func (f Format) kind() string { return strings.TrimPrefix(f.Name, "diskgnn.") }

// shardSuffix ends the name of a format of shards.
const shardSuffix = "-shard"

// Shard returns the format of the shards of a directory of this format; see package shard.
func (f Format) Shard() Format { return Format{f.Name + shardSuffix, f.Version} }

// Whole returns the format of the directory that shards of this format are merged into. It returns
// false if this is no format of shards.
func (f Format) Whole() (Format, bool) {
	name, ok := strings.CutSuffix(f.Name, shardSuffix)
	return Format{name, f.Version}, ok
}

// File describes one file of a finished directory. The checksum is the SHA-256 of the file's table of
// CRCs or, for a file without such a table, of its bytes.
type File struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	Checksum string `json:"checksum"`
}

// Meta is the content of meta.json: the description of a finished directory. It holds nothing that
// depends on when, where or how fast the directory was made.
type Meta struct {
	Format Format `json:"format"`
	// Params are the content parameters, which decide the bytes.
	Params json.RawMessage `json:"params"`
	// Parents maps a role, such as "dataset", to the fingerprint of that parent directory.
	Parents map[string]string `json:"parents,omitempty"`
	// Facts are counts that follow from the content, and that readers need.
	Facts json.RawMessage `json:"facts,omitempty"`
	Files []File          `json:"files"`
	// Fingerprint is the SHA-256 over all the fields above.
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

func (m *Meta) spec() Spec { return Spec{Format: m.Format, Params: m.Params, Parents: m.Parents} }

func hashJSON(v any) (string, error) {
	b, err := canonical(v)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// fingerprint computes Meta.Fingerprint from the other fields: the SHA-256 of their canonical JSON, with
// the files in the order of their names. It hashes member by member, since a directory may have very
// many files.
func (m *Meta) fingerprint() (string, error) {
	h := sha256.New()
	var err error
	write := func(key string, v any) {
		var b []byte
		if err == nil {
			b, err = canonical(v)
		}
		h.Write([]byte(key))
		h.Write(b)
	}
	h.Write([]byte("{"))
	if len(m.Facts) > 0 {
		write(`"facts":`, m.Facts)
		h.Write([]byte(","))
	}
	h.Write([]byte(`"files":`))
	if m.Files == nil {
		h.Write([]byte("null"))
	} else {
		files := slices.Clone(m.Files)
		slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
		h.Write([]byte("["))
		for i, f := range files {
			// Members in the order of their keys are canonical as they are.
			b, ferr := json.Marshal(struct {
				Checksum string `json:"checksum"`
				Name     string `json:"name"`
				Size     int64  `json:"size"`
			}{f.Checksum, f.Name, f.Size})
			if ferr != nil {
				return "", ferr
			}
			if i > 0 {
				h.Write([]byte(","))
			}
			h.Write(b)
		}
		h.Write([]byte("]"))
	}
	write(`,"fingerprint":"","format":`, m.Format)
	write(`,"params":`, m.Params)
	if len(m.Parents) > 0 {
		write(`,"parents":`, m.Parents)
	}
	h.Write([]byte("}"))
	return hex.EncodeToString(h.Sum(nil)), err
}

// DecodeParams decodes the content parameters into v. An error is of kind fault.ErrCorrupt.
func (m *Meta) DecodeParams(v any) error { return decode(m.Params, v, "params") }

// DecodeFacts decodes the facts into v. An error is of kind fault.ErrCorrupt.
func (m *Meta) DecodeFacts(v any) error { return decode(m.Facts, v, "facts") }

func decode(raw json.RawMessage, v any, what string) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.New(fault.ErrCorrupt, "%s: %s: %v", MetaFile, what, err)
	}
	return nil
}

// File returns the description of a file, false if the directory has no file of this name.
func (m *Meta) File(name string) (File, bool) {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return m.Files[i], true
}

// Open reads the meta.json of a finished directory. It checks the format, the fingerprint, and the
// existence and size of every file; it does not read the files. kind, such as "dataset", is the word for
// the expected directory in messages. formats are the accepted formats, at least one.
func Open(fsys vfs.FS, dir, kind string, formats ...Format) (*Meta, error) {
	m, err := open(fsys, dir, kind, formats)
	return m, Damaged(err, dir, formats[0])
}

func open(fsys vfs.FS, dir, kind string, formats []Format) (*Meta, error) {
	m, err := readMeta(fsys, dir, kind)
	if err != nil {
		return nil, err
	}
	if m.Format.Name == formats[0].Shard().Name {
		return nil, fault.New(fault.ErrInput, "%s is one shard of a %s: combine all its shards with diskgnn merge, and give the result", dir, kind)
	}
	if m.Format.Name != formats[0].Name {
		return nil, fault.New(fault.ErrInput, "%s is a %s directory, not a %s", dir, m.Format.kind(), kind)
	}
	known := Versions[Format]{}
	for _, f := range formats {
		known[f.Version] = f
	}
	if _, err := known.Of(dir, m.Format); err != nil {
		return nil, err
	}
	if err := m.checkSizes(fsys, dir); err != nil {
		return nil, err
	}
	return m, nil
}

// Bytes returns the total size of all files.
func (m *Meta) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// checkSizes checks that every file exists, is a regular file, and has its size.
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

// Limits of a reader of meta.json. Only the list of files is long: an entry takes about 160 bytes, so
// the limit allows 400,000 files, more than the batches of any graph need. The memory of a reader stays
// within a few times these limits for any content.
const (
	maxMeta    = 64 << 20
	maxRaw     = 256 << 10 // of parameters, of facts
	maxParents = 64 << 10
)

// ReadMeta reads the meta.json of a finished directory of any format and checks
// its fingerprint.
func ReadMeta(fsys vfs.FS, dir, kind string) (*Meta, error) {
	m, err := readMeta(fsys, dir, kind)
	return m, Damaged(err, dir, Format{})
}

func readMeta(fsys vfs.FS, dir, kind string) (*Meta, error) {
	name := filepath.Join(dir, MetaFile)
	b, err := vfs.ReadSmall(fsys, name, maxMeta)
	if err != nil {
		return nil, notFinished(fsys, dir, kind, err)
	}
	m, err := decodeMeta(b)
	if err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: bytes 0 to %d: %v", name, len(b), err)
	}
	fp, err := m.fingerprint()
	if err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %v", name, err)
	}
	if same, err := m.encodesTo(b); err != nil || !same || fp != m.Fingerprint {
		return nil, fault.New(fault.ErrCorrupt, "%s: bytes 0 to %d do not match their own fingerprint: the file was edited or damaged", name, len(b))
	}
	return m, nil
}

// encodesTo reports whether m encodes to this JSON, up to white space. The fingerprint covers the decoded
// values only: decoding drops unknown members and ignores the case of keys, which this check detects.
func (m *Meta) encodesTo(b []byte) (bool, error) {
	want, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	var have bytes.Buffer
	have.Grow(len(b))
	err = json.Compact(&have, b)
	return bytes.Equal(have.Bytes(), want), err
}

func decodeMeta(b []byte) (*Meta, error) {
	var raw struct {
		Meta
		Parents json.RawMessage `json:"parents"`
		Files   json.RawMessage `json:"files"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, err
	}
	m := raw.Meta
	if n := max(len(m.Params), len(m.Facts)); n > maxRaw || len(raw.Parents) > maxParents {
		return nil, fmt.Errorf("parameters of %d bytes, facts of %d or parents of %d exceed their limits", len(m.Params), len(m.Facts), len(raw.Parents))
	}
	if len(raw.Parents) > 0 {
		if err := json.Unmarshal(raw.Parents, &m.Parents); err != nil {
			return nil, err
		}
	}
	var err error
	m.Files, err = decodeFiles(raw.Files)
	return &m, err
}

// decodeFiles reads the list of files one by one, so that a list of very short entries takes no more
// memory than a list of real ones.
func decodeFiles(raw json.RawMessage) ([]File, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("files are no list (%v)", err)
	}
	files := []File{}
	for d.More() {
		var f File
		if err := d.Decode(&f); err != nil {
			return nil, err
		}
		switch sum, err := hex.DecodeString(f.Checksum); {
		case f.Name == "" || !fs.ValidPath(f.Name):
			return nil, fmt.Errorf("invalid file name %q", f.Name)
		case err != nil || len(sum) != sha256.Size:
			return nil, fmt.Errorf("%s has the invalid checksum %.80q", f.Name, f.Checksum)
		case f.Size < 0:
			return nil, fmt.Errorf("%s has the invalid size of %d bytes", f.Name, f.Size)
		case strings.EqualFold(f.Name, MetaFile) || len(files) > 0 && files[len(files)-1].Name >= f.Name:
			return nil, fmt.Errorf("%s is listed twice, or out of order", f.Name)
		}
		files = append(files, f)
	}
	return files, nil
}

// notFinished explains why a directory has no meta.json.
func notFinished(fsys vfs.FS, dir, kind string, err error) error {
	switch st, _ := fsys.Stat(dir); {
	case st != nil && !st.IsDir():
		return fault.New(fault.ErrInput, "%s is a file, not a %s", dir, kind)
	case fault.Starved(err):
		return err
	case st != nil && errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.ErrInput, "%s is no finished %s: it has no %s", dir, kind, MetaFile)
	case st != nil:
		return fault.New(fault.ErrInput, "%s is no finished %s: it has no readable %s (%v)", dir, kind, MetaFile, err)
	}
	if ok, _ := vfs.Exists(fsys, dir+partialSuffix); ok {
		// A reader must not make a lock file, as FS.Lock does.
		lock, err := vfs.Share(filepath.Join(dir+partialSuffix, lockFile))
		if errors.Is(err, fault.ErrLocked) {
			return fault.New(fault.ErrLocked, "%s is not finished yet: another process works on %s%s; wait for it", dir, dir, partialSuffix)
		} else if err == nil {
			_ = lock.Close() // only tried
		}
		return fault.New(fault.ErrInput, "%s is not finished yet: %s%s is under way or was interrupted; run its command again to resume", dir, dir, partialSuffix)
	}
	return fault.New(fault.ErrInput, "no %s at %s", kind, dir)
}

// Kind returns the kind of a finished directory in the users' word, such as "pack", or "" if it is not a
// finished directory.
func Kind(fsys vfs.FS, dir string) string {
	m, err := readMeta(fsys, dir, "directory")
	if err != nil {
		return ""
	}
	return m.Format.kind()
}

// CheckParent returns nil if child was made from a parent with the given fingerprint in this role, else
// an error of kind fault.ErrLineage that names both directories.
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

// Versions is the table of a format: it has the decoder or the features of each version. A new version
// adds an entry; no entry is removed. docs/format/README.md lists the sentences that refuse other
// versions.
type Versions[D any] map[int]D

// Decoder returns the entry of a version. For an unknown version it returns an error of kind
// fault.ErrVersion with the text of refusal, a format for the version (%d) and the list of known
// versions (%s).
func (t Versions[D]) Decoder(version int, refusal string) (D, error) {
	d, ok := t[version]
	if ok {
		return d, nil
	}
	var read []string
	for _, v := range slices.Sorted(maps.Keys(t)) {
		read = append(read, fmt.Sprint(v))
	}
	return d, fault.New(fault.ErrVersion, refusal, version, strings.Join(read, " and "))
}

// Of is Decoder for the directory dir of format f.
func (t Versions[D]) Of(dir string, f Format) (D, error) {
	d, err := t.Decoder(f.Version, "is version %d, this program reads version %s: make it again, or use the program that made it")
	if err != nil {
		return d, fmt.Errorf("%s: %s %w", dir, f.Name, err)
	}
	return d, nil
}

// Formats lists the versions of the directory format with this name in ascending order, for Open.
func (t Versions[D]) Formats(name string) []Format {
	var formats []Format
	for _, v := range slices.Sorted(maps.Keys(t)) {
		formats = append(formats, Format{name, v})
	}
	return formats
}
