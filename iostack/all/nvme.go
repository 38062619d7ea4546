package all

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"diskgnn/device"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/array"
	"diskgnn/iostack/nvme/gpuread"
	"diskgnn/iostack/nvme/target"
	"diskgnn/iostack/nvme/volume"
)

// NVMe is the prefix of the kinds of backends that drive NVMe drives from user space. The names of the
// drives follow, in the form of package target.
const NVMe = target.Prefix

// IsNVMe reports whether a kind has the prefix NVMe. Such a backend needs exclusive use of its drives.
func IsNVMe(kind string) bool { return strings.HasPrefix(kind, NVMe) }

// openNVMe starts a stack on the drives of a target. Files that are not on their volume are
// read by the best backend that reads the file system.
func openNVMe(kind string, options iostack.Options) (_ iostack.Stack, _ string, err error) {
	t, err := target.Parse(kind)
	if err != nil {
		return nil, "", err
	}
	host, how, err := Open(Auto, options)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, host.Close())
		}
	}()
	transports, err := t.Open(target.How{FS: vfs.OS, ReadOnly: true})
	if err != nil {
		return nil, "", err
	}
	var about []string // descriptions of the drives
	with := array.Options{Options: options}
	if options.Device != nil {
		with.Lent, with.LentDepth = gpuread.LentQueues, gpuread.LentDepth
	}
	s, err := array.New(context.Background(), transports, with, func(controllers []*nvme.Controller) (array.Table, error) {
		v, err := volume.Tables(controllers)
		if err != nil {
			return nil, err
		}
		about = append([]string{fmt.Sprintf("the %s %.12s… on %s", v.Contents().Format, v.Contents().Fingerprint, t)}, target.Cautions(controllers)...)
		return table{v.Finder(vfs.OS)}, nil
	})
	if err != nil {
		return nil, "", err
	}
	reason := fmt.Sprintf("nvme: %s in flight, %s; other files: %s", units.Of(s.Caps().Depth, "read"), strings.Join(about, "; "), how)
	return &onDrives{joined: join(s, host.(part)), array: s}, reason, nil
}

// onDrives is the joined stack of NVMe drives and a backend of the host. The drives can lend queues to a
// GPU.
type onDrives struct {
	*joined
	array *array.Stack
}

var _ iostack.DeviceStack = (*onDrives)(nil)

// DeviceTerms implements iostack.DeviceStack.
func (s *onDrives) DeviceTerms(n iostack.DeviceNeed) (iostack.DeviceTerms, error) {
	return gpuread.Terms(s.array, n)
}

// NewDeviceReader implements iostack.DeviceStack.
func (s *onDrives) NewDeviceReader(d device.GPU, n iostack.DeviceNeed) (iostack.DeviceReader, error) {
	r, err := gpuread.New(d, s.array, n)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// table is the table of files of a volume, for an array.
type table struct{ finder *volume.Finder }

// Held returns the bytes of the volume's table, which count as the stack's; see iostack.Held.
func (t table) Held() int64 { return t.finder.Held() }

// Find implements array.Table.
func (t table) Find(name string) (array.File, error) {
	f, err := t.finder.Find(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", name, err)
	case f == nil:
		return nil, fmt.Errorf("open %s: %w", name, iostack.ErrElsewhere)
	}
	return f, nil
}
