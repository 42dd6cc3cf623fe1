import type { ApiPathSign, KubeletSign, LeavingSign } from '../../../protocol/beat.ts';
import type { Policy } from '../../../worker/core/policy.ts';
import type { ApiModel, ApiNode } from './api-model.ts';
import { BeaconModel, type BeaconHost } from './beacon-model.ts';
import type { Edge } from './edge.ts';
import { KubeletModel, type KubeletOptions } from './kubelet-model.ts';
import type { Path } from './network.ts';
import type { EventQueue } from './queue.ts';
import type { Random } from './random.ts';

/** The beacon needs two failed looks at /healthz, up to 5 s apart, before it says that the kubelet is down. */
const SIGN_DELAY_MS = { least: 1_000, most: 6_000 };
/** A restarted kubelet registers and renews after about this long. */
const KUBELET_STARTS_MS = 2_000;
/** Reading one's own Node anew, and putting the key on it. */
const ENROLS_MS = 2_000;

const OK: KubeletSign = { state: 'ok', okThisBoot: true };
const DOWN: KubeletSign = { state: 'down', okThisBoot: true, why: 'connection refused' };
const API_OK: ApiPathSign = { state: 'ok' };
const API_CUT: ApiPathSign = { state: 'cut', why: 'timed out' };

export interface MachineParts {
  readonly queue: EventQueue;
  readonly random: Random;
  readonly api: ApiModel;
  readonly edge: Edge;
  readonly quorum: number;
  readonly policy: Policy;
  readonly name: string;
  readonly zone: string;
  readonly uplink: Path;
  readonly kubelet: KubeletOptions;
}

/** One node: a host with a beacon and a kubelet, each with its own way out. */
export class Machine implements BeaconHost {
  readonly name: string;
  readonly zone: string;
  readonly keyX: string;
  readonly uplink: Path;
  readonly beacon: BeaconModel;
  readonly kubelet: KubeletModel;
  readonly apiNode: ApiNode;
  clockOffsetMs = 0;
  isOn = false;
  readonly #parts: MachineParts;
  #uids = 1;
  #kubeletSign: KubeletSign = OK;
  #apiSign: ApiPathSign = API_OK;
  #signChanges = 0;
  #enrolling = false;
  #uplinkCuts = 0;
  #apiCuts = 0;

  constructor(parts: MachineParts, index: number) {
    this.#parts = parts;
    const { queue, random, api, edge, quorum, policy, name, zone, uplink } = parts;
    this.name = name;
    this.zone = zone;
    this.uplink = uplink;
    this.keyX = `${index}`.padStart(43, 'k');
    this.kubelet = new KubeletModel(parts.kubelet, random.fork());
    const uid = `uid-${name}-1`;
    this.beacon = new BeaconModel({
      queue,
      random: random.fork(),
      edge,
      quorum,
      host: this,
      intervalMs: policy.intervalMs,
      uid,
    });
    this.apiNode = {
      name,
      uid,
      resourceVersion: 1,
      labels: { 'topology.kubernetes.io/zone': zone },
      annotations: { 'farpulse/beacon-key': this.keyX },
      ready: undefined,
      kubelet: this.kubelet,
      clockOffsetMs: 0,
      readyPods: 10,
    };
    api.add(this.apiNode);
  }

  kubeletSign(): KubeletSign {
    return this.#kubeletSign;
  }

  apiSign(): ApiPathSign {
    return this.#apiSign;
  }

  /** Whether its kubelet lives and can speak to the API server: writing Unknown for such a node is a mistake. */
  get isReallyReady(): boolean {
    return this.kubelet.isAlive && this.kubelet.canReachApi;
  }

  boot(): void {
    if (this.isOn) return;
    this.isOn = true;
    this.#kubeletSign = OK;
    this.beacon.boot();
    this.#startKubelet();
  }

  /** Power off, kernel panic: everything on it ends without a word. */
  crash(): void {
    this.isOn = false;
    this.beacon.stop();
    this.kubelet.stop(this.#parts.queue.nowMs);
  }

  /** A shutdown in good order: the beacon says so first. */
  shutDown(leaving: LeavingSign): void {
    this.beacon.farewell(leaving);
    this.crash();
  }

  stopKubelet(): void {
    this.kubelet.stop(this.#parts.queue.nowMs);
    this.#sayLater(() => (this.#kubeletSign = DOWN));
  }

  startKubelet(): void {
    if (this.isOn) this.#startKubelet();
  }

  stopBeacon(): void {
    this.beacon.stop();
  }

  startBeacon(): void {
    if (this.isOn && !this.beacon.isRunning) this.beacon.start();
  }

  /** Cuts and mendings of one path are counted, so that outages may overlap. */
  cutUplink(): void {
    this.#uplinkCuts += 1;
    this.uplink.cut();
  }

  mendUplink(): void {
    this.#uplinkCuts = Math.max(0, this.#uplinkCuts - 1);
    if (this.#uplinkCuts === 0) this.uplink.mend();
  }

  cutApiPath(): void {
    this.#apiCuts += 1;
    this.setApiReach();
    this.#sayLater(() => (this.#apiSign = API_CUT));
  }

  mendApiPath(): void {
    this.#apiCuts = Math.max(0, this.#apiCuts - 1);
    if (this.#apiCuts > 0) return;
    this.setApiReach();
    this.#apiSign = API_OK;
    this.#signChanges += 1;
  }

  /** The node is off the network: beacon and kubelet alike. */
  cutAll(): void {
    this.cutUplink();
    this.cutApiPath();
  }

  mendAll(): void {
    this.mendUplink();
    this.mendApiPath();
  }

  /** Works out anew whether the kubelet's requests are answered; to be called when the API server's state changes. */
  setApiReach(): void {
    const nowMs = this.#parts.queue.nowMs;
    this.kubelet.advance(nowMs);
    this.kubelet.canReachApi = this.#apiCuts === 0 && this.#parts.api.trouble !== 'unreachable';
    if (this.kubelet.canReachApi) this.#parts.api.kubeletSpeaks(this.name);
  }

  jumpClock(byMs: number): void {
    this.clockOffsetMs += byMs;
    this.apiNode.clockOffsetMs = this.clockOffsetMs;
  }

  /** The Node is deleted, and another of the same name made: a new uid, no annotations of ours. */
  recreate(): void {
    this.#uids += 1;
    const { api } = this.#parts;
    api.delete(this.name);
    this.apiNode.uid = `uid-${this.name}-${this.#uids}`;
    this.apiNode.resourceVersion += 1;
    this.apiNode.ready = undefined;
    delete this.apiNode.annotations['farpulse/beacon-key'];
    api.add(this.apiNode);
    api.kubeletSpeaks(this.name);
  }

  onDoubt(): void {
    if (this.#enrolling) return;
    this.#enrolling = true;
    this.#parts.queue.after(ENROLS_MS, () => {
      this.#enrolling = false;
      if (!this.isOn || !this.kubelet.canReachApi) return;
      this.beacon.uid = this.apiNode.uid;
      if (this.apiNode.annotations['farpulse/beacon-key'] === this.keyX) return;
      this.apiNode.annotations['farpulse/beacon-key'] = this.keyX;
      this.apiNode.resourceVersion += 1;
    });
  }

  #startKubelet(): void {
    const { queue, api } = this.#parts;
    queue.after(KUBELET_STARTS_MS, () => {
      if (!this.isOn || this.kubelet.isAlive) return;
      this.kubelet.start(queue.nowMs);
      api.kubeletSpeaks(this.name);
      this.#signChanges += 1;
      this.#kubeletSign = OK;
    });
  }

  /** A sign appears in beats some seconds after what it says; a change in between takes it back. */
  #sayLater(say: () => void): void {
    const { queue, random } = this.#parts;
    const change = ++this.#signChanges;
    queue.after(random.between(SIGN_DELAY_MS.least, SIGN_DELAY_MS.most), () => {
      if (change === this.#signChanges) say();
    });
  }
}
