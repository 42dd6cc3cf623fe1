// external-controller stands in for a kube-controller-manager with --node-liveness-source=external,
// which no release has yet (KEP-6371). It runs the unmodified node lifecycle and taint eviction
// controllers with a grace period that never ends, and adds what the KEP changes: see liveness.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

const (
	// Nobody outlives it, and added to a time it does not overflow.
	endlessGrace = 100 * 365 * 24 * time.Hour

	// kube-controller-manager's defaults.
	evictionRate           = 0.1
	secondaryEvictionRate  = 0.01
	largeClusterThreshold  = 50
	unhealthyZoneThreshold = 0.55
)

type options struct {
	kubeconfig    string
	monitorPeriod time.Duration
	startupGrace  time.Duration
	address       string
}

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "external-controller:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "external-controller:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("external-controller", flag.ContinueOnError)
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` of an account that may do what kube-controller-manager's node controllers do")
	fs.DurationVar(&o.monitorPeriod, "node-monitor-period", 5*time.Second, "between two passes over all nodes")
	fs.DurationVar(&o.startupGrace, "node-startup-grace-period", time.Minute,
		"until a node that never reported a Ready condition is marked Unknown")
	fs.StringVar(&o.address, "address", "127.0.0.1:0", "`host:port` of /healthz and /metrics")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kubeconfig == "" {
		return o, errors.New("-kubeconfig is needed")
	}
	if o.monitorPeriod <= 0 || o.startupGrace <= 0 {
		return o, errors.New("-node-monitor-period and -node-startup-grace-period must be above zero")
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "external-controller"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	// kube-controller-manager's defaults.
	config.QPS, config.Burst = 20, 30
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes, pods := factory.Core().V1().Nodes(), factory.Core().V1().Pods()
	lifecycle, err := nodelifecycle.NewNodeLifecycleController(
		ctx, factory.Coordination().V1().Leases(), pods, nodes, factory.Apps().V1().DaemonSets(), client,
		o.monitorPeriod, o.startupGrace, endlessGrace,
		evictionRate, secondaryEvictionRate, largeClusterThreshold, unhealthyZoneThreshold,
	)
	if err != nil {
		return err
	}
	eviction, err := tainteviction.New(ctx, client, pods, nodes, "taint-eviction-controller")
	if err != nil {
		return err
	}
	liveness, err := newLiveness(ctx, client, nodes, pods)
	if err != nil {
		return err
	}
	// Before the caches: who waits for /healthz waits for the controllers.
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	// With an account that may not list them all (daemonsets and leases are easily forgotten) this would
	// wait for ever and say so only in the log.
	synced, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for kind, ok := range factory.WaitForCacheSync(synced.Done()) {
		if !ok {
			return fmt.Errorf("the cache of %v does not fill: may the account list and watch them?", kind)
		}
	}
	go lifecycle.Run(ctx)
	go eviction.Run(ctx)
	go liveness.run(ctx, o.monitorPeriod)
	return serve(ctx, listener)
}

// serve answers /healthz and /metrics until ctx ends.
func serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		// KEP-6371, "Metrics": 1 for the configured source.
		fmt.Fprintln(w, "# TYPE node_collector_liveness_source gauge")
		fmt.Fprintln(w, `node_collector_liveness_source{source="external"} 1`)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
