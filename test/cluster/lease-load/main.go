// lease-load renews many node Leases at a fixed pace, as a fleet of kubelets would: it is the
// built-in heartbeat that a beat's cost is compared with. It prints one JSON line.
//
// A renewal is what a kubelet does: an UPDATE over protobuf of the Lease that the last answer
// brought, so with its resourceVersion and without a GET before it. All renewals share one
// connection; a real fleet has one each, which only costs the API server more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type options struct {
	kubeconfig    string
	leases        int
	perSecond     int
	seconds       int
	warmupSeconds int
}

// result is the line on standard output. Latencies are those of the renewals that succeeded,
// from sending to the answer; behindMaxMs says how late the pace itself ran, and is the first
// thing to look at when the latencies look too good.
type result struct {
	Count         int     `json:"count"`
	Errors        int     `json:"errors"`
	Skipped       int     `json:"skipped"`
	P50Ms         float64 `json:"p50Ms"`
	P99Ms         float64 `json:"p99Ms"`
	MaxMs         float64 `json:"maxMs"`
	BehindMaxMs   float64 `json:"behindMaxMs"`
	Leases        int     `json:"leases"`
	PerSecond     float64 `json:"perSecond"`
	MeasuredMs    float64 `json:"measuredMs"`
	FirstErrorMsg string  `json:"firstError,omitempty"`
}

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "lease-load:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "lease-load:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("lease-load", flag.ContinueOnError)
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of an account that may write Leases")
	fs.IntVar(&o.leases, "leases", 1000, "node Leases to create and renew, 1 to 20000")
	fs.IntVar(&o.perSecond, "per-second", 100, "renewals a second over all Leases, 1 to 5000")
	fs.IntVar(&o.seconds, "seconds", 60, "how long to measure, 1 to 3600")
	fs.IntVar(&o.warmupSeconds, "warmup-seconds", 5, "renewals at the same pace before measuring, 0 to 600")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kubeconfig == "" {
		return o, errors.New("-kubeconfig is needed")
	}
	for _, limit := range []struct {
		name             string
		value, low, high int
	}{
		{"-leases", o.leases, 1, 20000},
		{"-per-second", o.perSecond, 1, 5000},
		{"-seconds", o.seconds, 1, 3600},
		{"-warmup-seconds", o.warmupSeconds, 0, 600},
	} {
		if limit.value < limit.low || limit.value > limit.high {
			return o, fmt.Errorf("%s is %d, expected %d to %d", limit.name, limit.value, limit.low, limit.high)
		}
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	client, err := newClient(o.kubeconfig)
	if err != nil {
		return err
	}
	setUp, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	fleet, err := createFleet(setUp, client, o.leases)
	if err != nil {
		return fmt.Errorf("creating %d Leases: %w", o.leases, err)
	}

	progress("warming-up")
	fleet.renewAt(ctx, o.perSecond, time.Duration(o.warmupSeconds)*time.Second)
	// A bench reads the processes' CPU counters at this line and again at the result.
	progress("measuring")
	startedAt := time.Now()
	taken := fleet.renewAt(ctx, o.perSecond, time.Duration(o.seconds)*time.Second)
	measured := time.Since(startedAt)
	if ctx.Err() != nil {
		return errors.New("stopped before the measurement was over")
	}

	r := taken.summary()
	r.Leases = o.leases
	r.MeasuredMs = float64(measured.Microseconds()) / 1000
	r.PerSecond = float64(r.Count) / measured.Seconds()
	return json.NewEncoder(os.Stdout).Encode(r)
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "lease-load"
	// As the kubelet's heartbeat client: no client-side rate limit, 10 s per request.
	config.QPS = -1
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfig(config)
}

func progress(event string) {
	fmt.Fprintf(os.Stderr, "{\"event\":%q}\n", event)
}
