//go:build !linux

package comparison

import "errors"

func uncache(string) error { return errors.ErrUnsupported }
