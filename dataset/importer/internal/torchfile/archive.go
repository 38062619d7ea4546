package torchfile

import (
	"archive/zip"
	"io"
)

func openArchive(r io.ReaderAt, size int64) (*zip.Reader, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, bad("is no archive of torch.save, or a truncated one (%v); a file from before torch 1.6 is none: load it with torch and save it again", err)
	}
	return z, nil
}
