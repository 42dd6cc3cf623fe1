package main

import (
	"context"
	"log"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller"
	nodeutil "k8s.io/kubernetes/pkg/controller/util/node"
)

// liveness is what KEP-6371 ("Controller changes") adds to the node lifecycle controller: Ready is
// remembered from pass to pass, so that an Unknown written by somebody else is seen as a change.
//
// It runs beside the controller instead of inside it, so taints and readiness are two loops of the
// same period. Left out is the KEP's change of processPod, which marks a pod when it is bound: a pod
// has no Ready condition then, and only one that has is marked.
type liveness struct {
	client   kubernetes.Interface
	nodes    corelisters.NodeLister
	pods     cache.Indexer
	recorder record.EventRecorder

	// Ready as the previous pass saw it, by node name.
	lastReady map[string]v1.ConditionStatus
	// Nodes whose pods are still to be marked.
	toMark map[string]bool
}

func newLiveness(
	ctx context.Context,
	client kubernetes.Interface,
	nodes coreinformers.NodeInformer,
	pods coreinformers.PodInformer,
) (*liveness, error) {
	// Adds nothing when the node lifecycle controller has added it before.
	if err := controller.AddPodNodeNameIndexer(pods.Informer()); err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &liveness{
		client:    client,
		nodes:     nodes.Lister(),
		pods:      pods.Informer().GetIndexer(),
		recorder:  broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "node-controller"}),
		lastReady: map[string]v1.ConditionStatus{},
		toMark:    map[string]bool{},
	}, nil
}

func (l *liveness) run(ctx context.Context, period time.Duration) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := l.pass(ctx); err != nil {
			log.Printf("a pass over the nodes failed: %v", err)
		}
	}, period)
}

func (l *liveness) pass(ctx context.Context) error {
	nodes, err := l.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	seen := make(map[string]v1.ConditionStatus, len(nodes))
	for _, node := range nodes {
		_, condition := nodeutil.GetNodeCondition(&node.Status, v1.NodeReady)
		if condition == nil {
			continue
		}
		ready := condition.Status
		seen[node.Name] = ready
		last, known := l.lastReady[node.Name]
		switch {
		case ready == v1.ConditionTrue:
			delete(l.toMark, node.Name)
			continue
		case !known:
			// The first pass after a start: whatever happened meanwhile, its pods are to be marked.
			l.toMark[node.Name] = true
		case ready == v1.ConditionUnknown && last != v1.ConditionUnknown:
			log.Printf("%s became Unknown, was %s", node.Name, last)
			l.recorder.Eventf(referenceTo(node), v1.EventTypeNormal, "NodeNotReady",
				"Node %s status is now: NodeNotReady", node.Name)
			l.toMark[node.Name] = true
		}
		if l.toMark[node.Name] {
			l.markPods(ctx, node.Name)
		}
	}
	// Nodes that are gone are forgotten: a new one of the same name is on its first pass.
	l.lastReady = seen
	for name := range l.toMark {
		if _, exists := seen[name]; !exists {
			delete(l.toMark, name)
		}
	}
	return nil
}

// markPods marks all pods of a node, and tries again in the next pass if that failed.
func (l *liveness) markPods(ctx context.Context, node string) {
	found, err := l.pods.ByIndex(controller.PodNodeNameKeyIndex, node)
	if err == nil {
		pods := make([]*v1.Pod, 0, len(found))
		for _, pod := range found {
			pods = append(pods, pod.(*v1.Pod))
		}
		err = nodeutil.MarkPodsNotReady(ctx, l.client, l.recorder, pods, node)
	}
	if err != nil {
		log.Printf("the pods of %s could not all be marked: %v", node, err)
		return
	}
	delete(l.toMark, node)
}

func referenceTo(node *v1.Node) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
