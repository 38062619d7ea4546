// Package trainer has the tests of train.yaml, which is decoded as strictly as by an API server, into
// the types of Kubeflow Trainer. It is a module of its own: these types need an older Kubernetes than
// the types of the other manifests.
package trainer
