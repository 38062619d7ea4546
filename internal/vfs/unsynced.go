package vfs

// Unsynced returns fsys with every sync left out. It is for tests that run a
// stage hundreds of times and lose no power in between; injected below Inject,
// it leaves the syncs to be counted and failed.
func Unsynced(fsys FS) FS { return unsynced{fsys} }

type unsynced struct{ FS }

func (u unsynced) Create(name string) (File, error)        { return dropSync(u.FS.Create(name)) }
func (u unsynced) OpenReadWrite(name string) (File, error) { return dropSync(u.FS.OpenReadWrite(name)) }
func (u unsynced) Open(name string) (File, error)          { return dropSync(u.FS.Open(name)) }
func (u unsynced) SyncDir(string) error                    { return nil }

type unsyncedFile struct{ File }

func dropSync(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error { return nil }
