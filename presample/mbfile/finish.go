package mbfile

import (
	"errors"
	"fmt"
	"iter"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

const (
	// hotnessGranule is the bytes of hotness.bin under one checksum.
	hotnessGranule = 1 << 20
	// hotnessPiece is what is written or read at a time: whole granules.
	hotnessPiece = 4 << 20
)

// writeIndex writes index.bin and describes it and the files of batches.
func writeIndex(dir *stage.Dir, ix *index) ([]stage.File, error) {
	encoded := ix.encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(IndexFile), encoded); err != nil {
		return nil, fmt.Errorf("write %s: %w", IndexFile, err)
	}
	files := []stage.File{{Name: IndexFile, Size: int64(len(encoded)), Checksum: binio.Hash(encoded)}}
	for f := range ix.files() {
		files = append(files, ix.file(f))
	}
	return files, nil
}

// writeHotness writes the pieces of hotness.bin and its table of sums.
func writeHotness(dir *stage.Dir, pieces iter.Seq2[[]byte, error]) (files []stage.File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", HotnessFile, err)
		}
	}()
	f, err := dir.FS().Create(dir.File(HotnessFile))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	summer := binio.NewSummer(hotnessGranule)
	for piece, err := range pieces {
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(piece); err != nil {
			return nil, err
		}
		_, _ = summer.Write(piece)
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	sums := summer.Sums()
	table := sums.Encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(SumsFile), table); err != nil {
		return nil, err
	}
	return []stage.File{
		{Name: HotnessFile, Size: sums.Size, Checksum: sums.Checksum()},
		{Name: SumsFile, Size: int64(len(table)), Checksum: binio.Hash(table)},
	}, nil
}
