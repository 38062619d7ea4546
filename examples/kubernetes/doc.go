// Package kubernetes has the tests of the manifests in this directory. Each document of each is
// decoded as strictly as an API server would, into the types of Kubernetes and JobSet, those of
// Kubeflow Trainer in the module trainer; and a controller of Jobs, imitated, runs what they say, with pods that are killed,
// evicted and kept from their locks, and compares what that makes with what one process makes.
//
// It is a module of its own, so that nothing of Kubernetes is resolved with the program.
package kubernetes
