//go:build tools

// Package cluster keeps the commands that the test control plane is built from in go.mod:
// without these imports `go mod tidy` would drop them. Nothing compiles this file.
package cluster

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubemark"
)
