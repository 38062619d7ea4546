//go:build !linux

package memgroup

import "errors"

func rmdir(string) error { return errors.ErrUnsupported }

func gone(int) bool { return false }

func isDelegated(string) bool { return false }
