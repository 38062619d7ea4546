//go:build !linux

package commands

import "github.com/rogpeppe/go-internal/testscript"

func mountPermitted() bool { return false }

func scriptMount(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("mount: Linux only") }

func scriptLock(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("lock: Linux only") }
