// Package trainer has the tests of train.yaml: it is decoded as strictly as an API server would,
// into the types of Kubeflow Trainer. These are made for an older Kubernetes than the types that
// the other manifests are decoded into, so this is a module beside theirs.
package trainer
