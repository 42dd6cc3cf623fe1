import type { Random } from './random.ts';

/*
 * Timing of a real kubelet with its defaults (kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go,
 * kubelet_node_status.go, component-helpers/apimachinery/lease).
 */
const LEASE_RENEWAL_MS = 10_000;
const LEASE_RENEWAL_JITTER = 0.04;
/** It looks at its own Node this often, and takes back what another wrote. */
const STATUS_LOOP_MS = 10_000;
/** An unchanged status is reported this often, up to half as much later, only for its heartbeat. */
const STATUS_REPORT_MS = 300_000;
const STATUS_REPORT_JITTER = 0.5;

export interface KubeletOptions {
  readonly renewsLease: boolean;
  /** It sees what others wrote only with its regular report. */
  readonly hasBrokenWatch: boolean;
}

/**
 * A kubelet's traces in the cluster. Worked out when somebody looks, not event by event: a renewal every 10 s would
 * cost as much as all beats together. Whoever changes what it can reach must call `advance` first.
 */
export class KubeletModel {
  isAlive = false;
  /** Whether its requests reach an API server that answers. */
  canReachApi = true;
  /** Its Lease goroutine hangs, while all the rest of it works. */
  leaseHangs = false;
  readonly options: KubeletOptions;
  /** By the simulation's clock; the node's own is added where it is shown. */
  renewedAtMs: number | undefined;
  reportedAtMs: number | undefined;
  readonly #random: Random;
  #nextRenewalMs = Number.POSITIVE_INFINITY;
  #nextReportMs = Number.POSITIVE_INFINITY;

  constructor(options: KubeletOptions, random: Random) {
    this.options = options;
    this.#random = random;
  }

  start(nowMs: number): void {
    this.advance(nowMs);
    this.isAlive = true;
    this.#nextRenewalMs = nowMs;
    this.#nextReportMs = nowMs;
    this.advance(nowMs);
  }

  stop(nowMs: number): void {
    this.advance(nowMs);
    this.isAlive = false;
    this.#nextRenewalMs = Number.POSITIVE_INFINITY;
    this.#nextReportMs = Number.POSITIVE_INFINITY;
  }

  /** Brings its traces up to date. */
  advance(nowMs: number): void {
    while (this.#nextRenewalMs <= nowMs) {
      if (this.canReachApi && this.options.renewsLease && !this.leaseHangs)
        this.renewedAtMs = this.#nextRenewalMs;
      this.#nextRenewalMs += LEASE_RENEWAL_MS * (1 + LEASE_RENEWAL_JITTER * this.#random.next());
    }
    while (this.#nextReportMs <= nowMs) {
      if (this.canReachApi) this.reportedAtMs = this.#nextReportMs;
      this.#nextReportMs += this.canReachApi
        ? STATUS_REPORT_MS * (1 + STATUS_REPORT_JITTER * this.#random.next())
        : STATUS_LOOP_MS;
    }
  }

  /** How long until it takes back what another has just written. */
  noticesInMs(nowMs: number): number {
    return this.options.hasBrokenWatch ? this.#nextReportMs - nowMs : this.#random.next() * STATUS_LOOP_MS;
  }

  /** It has written its status out of turn. */
  reported(nowMs: number): void {
    this.reportedAtMs = nowMs;
    this.#nextReportMs = nowMs + STATUS_REPORT_MS * (1 + STATUS_REPORT_JITTER * this.#random.next());
  }

  get statusLoopMs(): number {
    return STATUS_LOOP_MS;
  }
}
