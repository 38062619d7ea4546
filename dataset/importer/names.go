package importer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
)

// names writes the names of the nodes, if they have any.
func (im *importing) names(ctx context.Context) (err error) {
	if im.shape.NameBytes == 0 || im.w.Has(dataset.NameOffsetsFile, dataset.NamesFile) {
		return nil
	}
	src, ok := im.src.(Namer)
	if !ok {
		return fmt.Errorf("import: the format %s reports names of nodes, but does not implement Namer", im.format.Name)
	}
	w, err := im.w.StartNames()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Discard()) }()
	if im.to == nil {
		err = src.Names(ctx, w.Append)
	} else {
		err = im.moveNames(ctx, src, w)
	}
	if err != nil {
		return err
	}
	return w.Finish()
}

func (im *importing) moveNames(ctx context.Context, src Namer, w *dataset.NameWriter) (err error) {
	s, err := extsort.NewRecords(im.fs, im.w.Scratch("names"), extsort.RecordOptions{Records: im.shape.Nodes, Bytes: im.shape.NameBytes, Memory: im.plan.rows})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v := 0
	err = src.Names(ctx, func(name []byte) error {
		v++
		return s.Add(im.to[v-1], name)
	})
	if err == nil {
		err = s.Start(0)
	}
	if err != nil {
		return err
	}
	for {
		name, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.Append(name)
		}
		if err != nil {
			return err
		}
	}
}
