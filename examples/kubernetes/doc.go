// Package kubernetes has the tests of the manifests in this directory. Each document is decoded as
// strictly as by an API server, into the types of Kubernetes and JobSet; the module trainer decodes the
// types of Kubeflow Trainer. An imitated controller of Jobs runs the commands of the manifests, with pods
// that are killed, evicted and kept from their locks, and compares the directories with the output of a
// single process.
//
// It is a module of its own, so that the program does not depend on the modules of Kubernetes.
package kubernetes
