package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"diskgnn/internal/fault"
)

// Ports is how many ports the first process may listen on: its own and the next 16. A
// launcher may hold the first, as torchrun does MASTER_PORT for itself.
const Ports = 17

// defaultPort is taken where nothing says one. It is not torchrun's.
const defaultPort = 29400

// loopback is where processes of one host find each other.
const loopback = "127.0.0.1"

// address completes a place of one of several replicas: MASTER_ADDR and MASTER_PORT win over
// what the set says, processes of one host need neither.
func (p *Place) address(use Use, env Env, r reading) error {
	if use != Replicas || p.Alone() {
		return nil
	}
	p.Host, p.Port = r.host, r.port
	for _, names := range [][2]string{{"MASTER_ADDR", "MASTER_PORT"}, {"PET_MASTER_ADDR", "PET_MASTER_PORT"}} {
		host, port := env(names[0]), env(names[1])
		if host != "" {
			p.Host = host
		}
		if port != "" {
			n, ok := number(port)
			if !ok || n < 1 || n > 1<<16-Ports {
				return fault.New(fault.ErrUsage, "%s=%s is no port: 1 to %d", names[1], port, 1<<16-Ports)
			}
			p.Port = n
		}
		if host != "" || port != "" {
			break
		}
	}
	if p.Port == 0 {
		p.Port = defaultPort
	}
	if p.Host == "" && r.localCount > 0 && r.localCount == r.count {
		p.Host = loopback
	}
	if p.Host == "" {
		return fault.New(fault.ErrUsage, "process %d of %d, by %s, needs to know where the first one is: set MASTER_ADDR to its host, the same for all", p.Index, p.Count, p.From)
	}
	return nil
}

// Addresses returns where the first process may be found, host:port, in the order in which it
// tries them. Which one it took, and that it is of the same run, a handshake has to say.
func (p Place) Addresses() []string {
	list := make([]string, Ports)
	for i := range list {
		list[i] = net.JoinHostPort(p.Host, strconv.Itoa(p.Port+i))
	}
	return list
}

// Listen listens on the first of the place's addresses that is free: for the process with
// index 0. It listens on that address of the host alone where it is one of its own, else on
// all, as where the name is a service's. The caller closes the listener. Where none of the
// ports is free, the error wraps the last one's.
func (p Place) Listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	for _, address := range p.Addresses() {
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		_, port, _ := net.SplitHostPort(address)
		if l, err = config.Listen(ctx, "tcp", ":"+port); err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen for the other processes at %s: %w", address, err)
		}
	}
	return nil, fault.New(fault.ErrUsage, "listen for the other processes: ports %d to %d of %s are taken; MASTER_PORT says another one", p.Port, p.Port+Ports-1, p.Host)
}
