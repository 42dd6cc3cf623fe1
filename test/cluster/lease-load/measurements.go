package main

import (
	"slices"
	"sync"
	"time"
)

// measurements collects what the renewals took. Every method may be called from any goroutine.
type measurements struct {
	mu         sync.Mutex
	durations  []time.Duration
	errors     int
	skipped    int
	behindMax  time.Duration
	firstError error
}

func (m *measurements) add(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.errors++
		if m.firstError == nil {
			m.firstError = err
		}
		return
	}
	m.durations = append(m.durations, took)
}

func (m *measurements) skip() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped++
}

func (m *measurements) behind(late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.behindMax = max(m.behindMax, late)
}

func (m *measurements) summary() result {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.durations)
	r := result{
		Count:       len(m.durations),
		Errors:      m.errors,
		Skipped:     m.skipped,
		P50Ms:       percentileMs(m.durations, 50),
		P99Ms:       percentileMs(m.durations, 99),
		MaxMs:       percentileMs(m.durations, 100),
		BehindMaxMs: ms(m.behindMax),
	}
	if m.firstError != nil {
		r.FirstErrorMsg = m.firstError.Error()
	}
	return r
}

// percentileMs is the nearest-rank percentile: the smallest value with at least that share at or below it.
func percentileMs(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return ms(sorted[max(rank, 1)-1])
}

func ms(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
