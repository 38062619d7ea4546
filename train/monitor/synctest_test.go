package monitor

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"diskgnn/train/rundir"
)

// pipes is a listener within the process. Its connections follow the clock of testing/synctest.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090} }

// inBubble runs a test of a Monitor on a clock that moves while all goroutines wait. dial connects to it.
func inBubble(t *testing.T, test func(t *testing.T, m *Monitor, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		m, err := on(l, "127.0.0.1:9090", Access{}, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		test(t, m, func() net.Conn {
			here, there := net.Pipe()
			l.conns <- there
			return here
		})
	})
}

func ask(t *testing.T, c net.Conn, path string) {
	t.Helper()
	if _, err := io.WriteString(c, "GET /"+path+" HTTP/1.1\r\nHost: 127.0.0.1:9090\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// closedAfter returns when the other end closes the connection.
func closedAfter(c net.Conn) time.Duration {
	began := time.Now()
	_, _ = io.Copy(io.Discard, c)
	return time.Since(began)
}

// TestSilentClients: a connection without a request is closed after ten seconds, and one without a further
// request a minute after the answer.
func TestSilentClients(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Monitor, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		if took := closedAfter(c); took != 10*time.Second {
			t.Errorf("a connection without a request is closed after %v", took)
		}
		c = dial()
		defer c.Close()
		ask(t, c, "healthz")
		if took := closedAfter(c); took != time.Minute {
			t.Errorf("a connection that asks once is closed after %v", took)
		}
	})
}

// TestClientThatDoesNotRead: an answer that nobody reads ends after a minute, and others are served
// meanwhile.
func TestClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, m *Monitor, dial func() net.Conn) {
		began := time.Now()
		ended := make(chan time.Duration, 1)
		m.Begin(t.TempDir(), rundir.File{}, nil, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("report ", 1<<16))
			return err
		})
		slow := dial()
		defer slow.Close()
		ask(t, slow, "report")
		go func() { // the server takes a byte more at most, until it closes the connection
			_, _ = slow.Write(make([]byte, 2))
			ended <- time.Since(began)
		}()
		synctest.Wait()
		c := dial()
		ask(t, c, "healthz")
		b := make([]byte, 15)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 200 OK" {
			t.Errorf("%q, %v", b, err)
		}
		if took := <-ended; took != writeTimeout {
			t.Errorf("the answer ends after %v", took)
		}
		c.Close()
	})
}

// TestCloseIsShort: the end of the run waits a moment for answers under way, and no longer.
func TestCloseIsShort(t *testing.T) {
	inBubble(t, func(t *testing.T, m *Monitor, dial func() net.Conn) {
		m.Begin(t.TempDir(), rundir.File{}, nil, func(io.Writer) error {
			time.Sleep(time.Minute)
			return nil
		})
		c := dial()
		defer c.Close()
		ask(t, c, "report")
		synctest.Wait()
		began := time.Now()
		m.Close()
		if took := time.Since(began); took != closing {
			t.Errorf("Close takes %v", took)
		}
		time.Sleep(time.Minute) // the answer ends by itself
	})
}
