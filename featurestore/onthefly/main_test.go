package onthefly

import (
	"os"
	"testing"

	"diskgnn/internal/vfs/vfstest"
)

func TestMain(m *testing.M) { os.Exit(vfstest.Main(m)) }
