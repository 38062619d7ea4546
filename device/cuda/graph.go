package cuda

// Graph is captured work of a stream. One call launches all of it, any number of times.
type Graph struct {
	device *Device
	name   string // for errors
	exec   handle
}

// Capture makes a graph of the work that enqueue gives the stream. The work is not done. Until Capture
// returns, the goroutine must make no other calls of the device. name names the graph in errors. The caller
// frees the graph.
func (s *Stream) Capture(name string, enqueue func() error) (*Graph, error) {
	g := &Graph{device: s.device, name: name}
	err := s.capture(name, enqueue, func(graph handle) (err error) {
		g.exec, err = s.device.driver.instantiate(graph)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Update captures the work of enqueue on s, which must have the same kernels in the same order, and
// replaces the graph's parameters by its parameters. This is faster than capturing another graph.
func (g *Graph) Update(s *Stream, enqueue func() error) error {
	return s.capture(g.name, enqueue, func(graph handle) error { return g.device.driver.update(g.exec, graph) })
}

func (s *Stream) capture(name string, enqueue func() error, use func(graph handle) error) error {
	d := s.device
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.driver.beginCapture(s.handle); err != nil {
		return d.failed("capture "+name, err)
	}
	was := s.pending
	s.capturing = true
	asked := enqueue()
	s.capturing = false
	s.pending = was
	graph, err := d.driver.endCapture(s.handle)
	if graph != 0 {
		defer func() { _ = d.driver.dropGraph(graph) }()
	}
	if asked != nil {
		return asked // it is the cause of the driver's error
	}
	if err == nil {
		err = use(graph)
	}
	if err != nil {
		return d.failed("capture "+name, err)
	}
	return nil
}

// Launch enqueues the graph's work on the stream.
func (g *Graph) Launch(s *Stream) error {
	if err := g.device.usable(); err != nil {
		return err
	}
	return s.asked(g.name, g.device.driver.launchGraph(g.exec, s.handle))
}

// Free frees the graph. It must not be under way.
func (g *Graph) Free() { _ = g.device.driver.dropExec(g.exec) }
