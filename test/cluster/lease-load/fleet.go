package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	leaseNamespace       = "kube-node-lease"
	leaseDurationSeconds = 40 // the kubelet's default
	createConcurrency    = 16
)

// node is one pretended kubelet: the Lease as the last answer brought it.
// Only the goroutine that has set busy touches latest.
type node struct {
	busy   atomic.Bool
	latest *coordinationv1.Lease
}

type fleet struct {
	leases coordinationclient.LeaseInterface
	nodes  []*node
}

// createFleet makes the Leases, or takes over those that an earlier run left behind.
func createFleet(ctx context.Context, client kubernetes.Interface, count int) (*fleet, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &fleet{leases: client.CoordinationV1().Leases(leaseNamespace), nodes: make([]*node, count)}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range createConcurrency {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				lease, err := f.create(ctx, fmt.Sprintf("load-%05d", i))
				if err != nil {
					cancel(err)
					return
				}
				f.nodes[i] = &node{latest: lease}
			}
		})
	}
	wg.Wait()
	return f, context.Cause(ctx)
}

func (f *fleet) create(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	holder, seconds := name, int32(leaseDurationSeconds)
	lease, err := f.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: leaseNamespace,
			// A kubelet's Lease belongs to its Node: without the owner it would be a third smaller.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: name,
				UID: types.UID("00000000-0000-4000-8000-000000000000"),
			}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &holder,
			LeaseDurationSeconds: &seconds,
			RenewTime:            &metav1.MicroTime{Time: time.Now()},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return f.leases.Get(ctx, name, metav1.GetOptions{})
	}
	return lease, err
}

// renewAt renews the Leases in turn, perSecond of them each second, for the given time.
// The pace does not wait for answers, so that a slow server is not spared; a Lease whose last
// renewal is still under way when its turn comes is counted as skipped.
func (f *fleet) renewAt(ctx context.Context, perSecond int, duration time.Duration) *measurements {
	m := &measurements{}
	gap := time.Second / time.Duration(perSecond)
	startedAt := time.Now()
	total := int(duration / gap)
	var wg sync.WaitGroup
	for i := 0; i < total && ctx.Err() == nil; i++ {
		due := startedAt.Add(time.Duration(i) * gap)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		m.behind(time.Since(due))
		n := f.nodes[i%len(f.nodes)]
		if !n.busy.CompareAndSwap(false, true) {
			m.skip()
			continue
		}
		wg.Go(func() {
			defer n.busy.Store(false)
			sentAt := time.Now()
			err := f.renew(ctx, n)
			m.add(time.Since(sentAt), err)
		})
	}
	wg.Wait()
	return m
}

func (f *fleet) renew(ctx context.Context, n *node) error {
	lease := n.latest.DeepCopy()
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	updated, err := f.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		n.latest = updated
		return nil
	}
	if apierrors.IsConflict(err) {
		// Somebody else wrote it: take theirs, so that the next renewal can succeed.
		if current, getErr := f.leases.Get(ctx, lease.Name, metav1.GetOptions{}); getErr == nil {
			n.latest = current
		}
	}
	return err
}
