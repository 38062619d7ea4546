package job

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// port returns the port that a listener has.
func port(t *testing.T, l net.Listener) int {
	t.Helper()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestListenBeside: what holds MASTER_PORT, as torchrun does, is passed by; the port that is
// taken instead is one of those that the others try.
func TestListenBeside(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	p := Place{Count: 2, Host: "127.0.0.1", Port: port(t, holder)}
	if p.Port > 1<<16-Ports {
		t.Skip("the system gave one of the last ports")
	}
	l, err := p.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := port(t, l); n <= p.Port || n >= p.Port+Ports {
		t.Errorf("listens on %d, beside %d", n, p.Port)
	}
	list := p.Addresses()
	if len(list) != 17 || list[0] != holder.Addr().String() {
		t.Errorf("addresses %v", list)
	}
	found := false
	for _, a := range list {
		found = found || a == l.Addr().String()
	}
	if !found {
		t.Errorf("%v is not among %v", l.Addr(), list)
	}
}

// TestListenNowhere: 17 ports are taken.
func TestListenNowhere(t *testing.T) {
	base := 0
	var held []net.Listener
	release := func() {
		for _, l := range held {
			l.Close()
		}
		held = nil
	}
	defer release()
search:
	for try := 20100; try < 32000; try += Ports {
		for i := range Ports {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(try+i))
			if err != nil {
				release()
				continue search
			}
			held = append(held, l)
		}
		base = try
		break
	}
	if base == 0 {
		t.Skip("no 17 free ports in a row")
	}
	_, err := Place{Count: 2, Host: "127.0.0.1", Port: base}.Listen(t.Context())
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "MASTER_PORT") {
		t.Fatal(err)
	}
}

// TestListenUnderAName: the name is of no address here, as a service's may be.
func TestListenUnderAName(t *testing.T) {
	probe, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	free := port(t, probe)
	probe.Close()
	if free > 1<<16-Ports {
		t.Skip("the system gave one of the last ports")
	}
	l, err := Place{Count: 2, Host: "203.0.113.1", Port: free}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(l.Addr().String()); host != "::" && host != "0.0.0.0" {
		t.Errorf("listens on %v", l.Addr())
	}
}
