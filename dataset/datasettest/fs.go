package datasettest

import "diskgnn/internal/vfs"

// FS is the operating system's file system without syncs. The files of tests need not outlive a power
// failure, and properties write hundreds of datasets.
var FS vfs.FS = noSync{vfs.OS}

type noSync struct{ vfs.FS }

func (n noSync) Create(name string) (vfs.File, error) { return unsynced(n.FS.Create(name)) }
func (n noSync) OpenReadWrite(name string) (vfs.File, error) {
	return unsynced(n.FS.OpenReadWrite(name))
}
func (noSync) SyncDir(string) error { return nil }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }

func unsynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}
