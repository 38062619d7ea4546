package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/target"
	"diskgnn/iostack/nvme/volume"
	"diskgnn/pack/packfile"
)

const nvmeLoadTeaches = `Copies the files of a dataset, samples or a pack to raw NVMe drives without a file
system, as extents behind a table. The copy is read back and checked before it is in
force, so the drives have either their previous content or the whole new directory. An
interrupted load is resumed.

   diskgnn nvme load pack soft:drive --size 10GiB
   diskgnn nvme load pack soft:drive0,drive1 --force

A target soft:FILE, or soft:FILE,FILE for several drives, is files, each served by an NVMe
controller in software. A comma in a file name needs a backslash before it; --size creates
missing files. A target sysfs:ADDRESS is a drive of the machine, with its PCI address: root
takes it from the kernel's driver, and gives it back. A drive in use is never taken, and a
drive with a partition table only with --force. Several drives are striped in units of
--unit. Drives with any other content, including another directory, are refused without
--force. With --force, another directory stays in force until the new one is whole, if both
fit. The next command is diskgnn train with --io nvme:TARGET. nvme list shows the content of
the drives, and verify nvme:TARGET checks all of it.`

const nvmeListTeaches = `Shows the directory that diskgnn nvme load has put on drives, and the places of its files.

   diskgnn nvme list soft:drive
   diskgnn nvme list soft:drive0,drive1 --json`

// nvmeCommand has the operations on raw drives.
func nvmeCommand() command {
	return command{
		name:    "nvme",
		usage:   "put directories on raw NVMe drives",
		subs:    []command{nvmeLoadCommand(), nvmeListCommand()},
		unknown: "no subcommand %q; use load or list",
		missing: "name a subcommand: load or list",
	}
}

// loaded is nvme load's output.
type loaded struct {
	Dir         string  `json:"dir"`
	Target      string  `json:"target"`
	State       string  `json:"state"`
	Format      string  `json:"format"`
	Version     int     `json:"version"`
	Fingerprint string  `json:"fingerprint"`
	Files       int     `json:"files"`
	Bytes       int64   `json:"bytes"`
	Written     int64   `json:"bytes_written"`
	Drives      int     `json:"drives"`
	Unit        int64   `json:"unit_bytes"`
	Capacity    int64   `json:"capacity_bytes"`
	Seconds     float64 `json:"seconds"`
}

func nvmeLoadCommand() command {
	var o volume.Options
	var size int64
	return command{
		name:     "nvme load",
		resumes:  byItself,
		usage:    "copy a directory to raw drives",
		teaches:  nvmeLoadTeaches,
		operands: []string{"DIR", "TARGET"},
		flags: flags{
			bytesFlag("size", "size of each missing file of a soft: target, which is then created", "", &size),
			bytesFlag("unit", "bytes of a unit of striping, a power of two", "1MiB", &o.Unit),
			boolFlag("force", "replace the content of the drives, whatever it is", &o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			start, dir := time.Now(), s.args[0]
			t, err := target.Parse(s.args[1])
			if err != nil {
				return outcome{}, err
			}
			m, err := readMeta(dir)
			if err == nil {
				err = packfile.RefuseSlice(vfs.OS, dir)
			}
			if err != nil {
				return outcome{}, err
			}
			o.Reporter = s.rep
			o.Check = func(v *volume.Volume) error { return s.verifyVolume(ctx, v, t, m) }
			r, err := s.load(ctx, dir, m, t, size, o)
			if err != nil {
				return outcome{}, err
			}
			return wasLoaded(loaded{
				Dir: dir, Target: t.String(), State: r.State.String(), Format: m.Format.Name, Version: m.Format.Version, Fingerprint: m.Fingerprint,
				Files: len(r.Volume.Contents().Files), Bytes: r.Volume.Contents().Bytes(), Written: r.Written,
				Drives: r.Volume.Layout().Drives, Unit: r.Volume.Layout().Unit, Capacity: r.Volume.Layout().Bytes(), Seconds: time.Since(start).Seconds(),
			}), nil
		},
	}
}

func wasLoaded(l loaded) outcome {
	return outcome{object: l, lines: []line{
		made(l.Target, l.Fingerprint, l.State),
		{"format", stage.Format{Name: l.Format, Version: l.Version}.String()},
		{"files", fmt.Sprintf("%s, %s", units.Of(l.Files, "file"), budget.FormatBytes(l.Bytes))},
		{"written", budget.FormatBytes(l.Written)},
		{"volume", spread(l.Drives, l.Unit, l.Capacity)},
		{"time", units.Seconds(l.Seconds)},
	}, next: afterLoad(l)}
}

// afterLoad returns the proposed next command: train for a pack, else nvme list, since commands for other
// directories need more flags.
func afterLoad(l loaded) string {
	if l.Format == packfile.Format.Name {
		return fmt.Sprintf("diskgnn train --pack %s --out run --io %s", units.ShellWord(l.Dir), units.ShellWord(target.Prefix+l.Target))
	}
	return "diskgnn nvme list " + units.ShellWord(l.Target)
}

func spread(drives int, unit, capacity int64) string {
	text := fmt.Sprintf("%s on %s", budget.FormatBytes(capacity), units.Of(drives, "drive"))
	if drives > 1 {
		text += ", striped in units of " + budget.FormatBytes(unit)
	}
	return text
}

// load writes a directory to drives. No other process may write to them.
func (s *session) load(ctx context.Context, dir string, m *stage.Meta, t target.Target, size int64, o volume.Options) (r volume.Result, err error) {
	if t.Kind != target.Soft && size > 0 {
		return r, fault.New(fault.ErrUsage, "--size creates files for %s:FILE; the target is %s", target.Soft, t)
	}
	var made []string
	defer func() {
		// A refused load has written nothing: new files are removed, so that the next command may give
		// another size.
		if refused(err) {
			for _, file := range made {
				err = errors.Join(err, vfs.OS.Remove(file))
			}
		}
	}()
	if t.Kind == target.Soft {
		for _, file := range t.Parts {
			name, err := provide(file, size, m.Bytes()/int64(len(t.Parts)))
			if name != "" {
				made = append(made, name)
			}
			if err != nil {
				return r, err
			}
		}
	}
	err = s.onDrives(ctx, t, target.How{Force: o.Force}, func(d []volume.Drive) error {
		r, err = volume.Load(ctx, d, vfs.OS, dir, m, o)
		if r.Note != "" {
			s.rep.Logf("%s", r.Note)
		}
		return err
	})
	return r, err
}

// refused reports whether an error is of usage, or about disk space.
func refused(err error) bool {
	return errors.Is(err, fault.ErrUsage) || errors.Is(err, fault.ErrInput) || errors.Is(err, fault.ErrBudget)
}

// provide makes a sparse file of size bytes, and its parent directories, unless the file exists. It
// returns an error if the disk lacks space for need bytes, since a drive would only report a failed write.
// It returns the name of the file if it has made it, else "".
func provide(file string, size, need int64) (made string, err error) {
	if file, err = vfs.Destination(file); err != nil {
		return "", err
	}
	st, err := vfs.OS.Stat(file)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return "", fault.New(fault.ErrInput, "%s is no regular file (%s), and a soft: drive needs one", file, st.Mode())
	case err == nil && st.Size() > 0:
		if size > 0 && size != st.Size() {
			return "", fault.New(fault.ErrUsage, "%s exists and has %d bytes, not the %d of --size", file, st.Size(), size)
		}
		return "", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return "", err
	case size == 0:
		return "", fault.New(fault.ErrInput, "there is no drive at %s: --size creates one", file)
	case size%nvme.Page != 0:
		return "", fault.New(fault.ErrUsage, "--size %d is no multiple of %d bytes", size, nvme.Page)
	}
	if err := vfs.MakeParents(vfs.OS, file); err != nil {
		return "", err
	}
	absent := err
	free, err := vfs.OS.Free(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	if free < need {
		return "", fault.New(fault.ErrBudget, "%s needs %s of disk, but only %s is free", file, budget.FormatBytes(need), budget.FormatBytes(free))
	}
	f, err := vfs.OS.OpenReadWrite(file)
	if err != nil {
		return "", err
	}
	if errors.Is(absent, fs.ErrNotExist) {
		made = file
	}
	return made, errors.Join(f.Truncate(size), f.Close())
}

// onDrives calls f with the drives of a target.
func (s *session) onDrives(ctx context.Context, t target.Target, how target.How, f func([]volume.Drive) error) (err error) {
	how.FS = vfs.OS
	controllers, err := t.Up(ctx, how, nvme.Options{})
	if err != nil {
		return err
	}
	for _, caution := range target.Cautions(controllers) {
		s.rep.Logf("%s", caution)
	}
	drives := make([]volume.Drive, len(controllers))
	for i, c := range controllers {
		defer func(c io.Closer) { err = errors.Join(err, c.Close()) }(c)
		if drives[i], err = volume.OnQueue(c, c.Queues()[0]); err != nil {
			return err
		}
	}
	return f(drives)
}

// onVolume calls f with the volume on the drives of a target.
func (s *session) onVolume(ctx context.Context, name string, f func(target.Target, *volume.Volume) error) error {
	t, err := target.Parse(name)
	if err != nil {
		return err
	}
	return s.onDrives(ctx, t, target.How{ReadOnly: true}, func(d []volume.Drive) error {
		v, err := volume.Open(d)
		if err != nil {
			return err
		}
		return f(t, v)
	})
}

// verifyTarget checks the directory on drives by its own metadata.
func (s *session) verifyTarget(ctx context.Context, name string) (m *stage.Meta, err error) {
	err = s.onVolume(ctx, name, func(t target.Target, v *volume.Volume) (err error) {
		if m, err = stage.ReadMeta(v.FS(name), name, "directory"); err != nil {
			return err
		}
		if err := v.Verify(ctx, s.rep); err != nil {
			return err
		}
		return s.verifyVolume(ctx, v, t, m)
	})
	return m, err
}

// verifyVolume checks the directory on a volume like a directory of files.
func (s *session) verifyVolume(ctx context.Context, v *volume.Volume, t target.Target, want *stage.Meta) error {
	root := target.Prefix + t.String()
	fsys := v.FS(root)
	m, err := stage.Open(fsys, root, "directory", want.Format)
	if err != nil {
		return err
	}
	if c := v.Contents(); m.Fingerprint != c.Fingerprint || m.Format.Name != c.Format || m.Format.Version != c.Version {
		return fault.New(fault.ErrCorrupt, "%s: the table of the drives names %s %.12s…, but its %s names %s %.12s…", root, c.Format, c.Fingerprint, stage.MetaFile, m.Format.Name, m.Fingerprint)
	}
	return s.verifyFiles(ctx, fsys, root, m)
}

// onVolume is nvme list's output.
type onVolume struct {
	Target      string         `json:"target"`
	Format      string         `json:"format"`
	Version     int            `json:"version"`
	Fingerprint string         `json:"fingerprint"`
	Bytes       int64          `json:"bytes"`
	Drives      int            `json:"drives"`
	Unit        int64          `json:"unit_bytes"`
	Capacity    int64          `json:"capacity_bytes"`
	Generation  uint64         `json:"generation"`
	Files       []fileOnVolume `json:"files"`
}

type fileOnVolume struct {
	Name    string     `json:"name"`
	Bytes   int64      `json:"bytes"`
	Extents [][2]int64 `json:"extents"` // first page, pages
}

func nvmeListCommand() command {
	return command{
		name:     "nvme list",
		usage:    "show the directory on raw drives",
		teaches:  nvmeListTeaches,
		operands: []string{"TARGET"},
		run: func(ctx context.Context, s *session) (o outcome, err error) {
			err = s.onVolume(ctx, s.args[0], func(t target.Target, v *volume.Volume) error {
				o = listed(t, v)
				return nil
			})
			return o, err
		},
	}
}

func listed(t target.Target, v *volume.Volume) outcome {
	c, layout := v.Contents(), v.Layout()
	l := onVolume{
		Target: t.String(), Format: c.Format, Version: c.Version, Fingerprint: c.Fingerprint, Bytes: c.Bytes(),
		Drives: layout.Drives, Unit: layout.Unit, Capacity: layout.Bytes(), Generation: v.Generation(),
	}
	o := outcome{lines: []line{
		{"volume", spread(l.Drives, l.Unit, l.Capacity)},
		{"format", stage.Format{Name: c.Format, Version: c.Version}.String()},
		{"fingerprint", c.Fingerprint},
		{"files", fmt.Sprintf("%s, %s", units.Of(len(c.Files), "file"), budget.FormatBytes(l.Bytes))},
	}}
	for _, f := range c.Files {
		x := fileOnVolume{Name: f.Name, Bytes: f.Size, Extents: [][2]int64{}}
		for _, e := range f.Extents {
			x.Extents = append(x.Extents, [2]int64{e.First, e.Pages})
		}
		l.Files = append(l.Files, x)
		o.lines = append(o.lines, line{"  " + f.Name, budget.FormatBytes(f.Size)})
	}
	o.object = l
	return o
}
