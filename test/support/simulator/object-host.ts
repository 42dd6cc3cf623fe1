import type { EventQueue, Task } from './queue.ts';
import type { Random } from './random.ts';

/** An object leaves memory when it had no event for this long and waits for nothing. */
const SLEEPS_AFTER_MS = 10_000;

/** How far the platform's promises about one object hold. */
export interface PlatformModel {
  /** An alarm rings up to this much late. */
  readonly alarmJitterMs: number;
  /** Share of alarms that ring up to a minute late, and of those that never ring. */
  readonly alarmLate: number;
  readonly alarmLost: number;
}

export const GOOD_PLATFORM: PlatformModel = { alarmJitterMs: 50, alarmLate: 0, alarmLost: 0 };

/**
 * What the platform does to one Durable Object: its memory comes and goes, its alarm may be late or lost, its clock is
 * its own, it stands still or is away for a while. Subclasses hold the state and run the core.
 */
export abstract class ObjectHost {
  platform: PlatformModel = GOOD_PLATFORM;
  /** What the object's own clock is ahead of the simulation's. */
  clockOffsetMs = 0;
  /** Calls and alarms wait until then. */
  stalledUntilMs = 0;
  /** Calls fail until then. */
  awayUntilMs = 0;
  protected readonly queue: EventQueue;
  protected readonly random: Random;
  /** Calls to others that have not come back: while there are any, the object stays in memory. */
  protected pending = 0;
  /** Rises whenever memory is lost: what an earlier life waited for has nobody to come back to. */
  protected life = 0;
  /** As in storage, by the object's own clock. */
  protected alarmAtMs: number | undefined;
  #isLoaded = false;
  #lastEventAtMs = 0;
  #alarmToken = 0;

  constructor(queue: EventQueue, random: Random) {
    this.queue = queue;
    this.random = random;
  }

  /** Code is replaced or the machine dies: memory is gone, and calls fail for a moment. */
  restart(awayMs: number): void {
    this.evict();
    this.awayUntilMs = this.queue.nowMs + awayMs;
  }

  /** Memory is gone; the next event brings the object back. */
  evict(): void {
    this.life += 1;
    this.pending = 0;
    this.#isLoaded = false;
  }

  stall(forMs: number): void {
    this.stalledUntilMs = this.queue.nowMs + forMs;
  }

  /** Sets the object's clock forward or back. The alarm is due by that clock. */
  jumpClock(byMs: number): void {
    this.clockOffsetMs += byMs;
    if (this.alarmAtMs !== undefined) this.#planAlarm(this.alarmAtMs);
  }

  poke(): void {
    this.call(() => this.tick());
  }

  get isAway(): boolean {
    return this.queue.nowMs < this.awayUntilMs;
  }

  get isStalled(): boolean {
    return this.queue.nowMs < this.stalledUntilMs;
  }

  protected get ownNowMs(): number {
    return Math.floor(this.queue.nowMs + this.clockOffsetMs);
  }

  /** Restores the state from storage. */
  protected abstract load(alarmDueAtMs: number | undefined): void;
  protected abstract tick(): void;

  /** Runs a call now, or when the object goes on again; a call to an object that is away is lost. */
  protected call(task: Task): void {
    if (this.isAway) return;
    if (this.isStalled) this.queue.at(this.stalledUntilMs, () => this.call(task));
    else task();
  }

  /** To be called before each event is handled: brings the memory back, if it is gone. */
  protected wake(alarmDueAtMs?: number): void {
    const nowMs = this.queue.nowMs;
    if (this.#isLoaded && this.pending === 0 && nowMs - this.#lastEventAtMs > SLEEPS_AFTER_MS) this.evict();
    this.#lastEventAtMs = nowMs;
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    this.load(alarmDueAtMs ?? this.alarmAtMs);
  }

  /** As the shells do: an alarm that rings too early is kept, one in the past is set anew. */
  protected arm(wakeAtMs: number): void {
    const nowMs = this.ownNowMs;
    if (this.alarmAtMs !== undefined && this.alarmAtMs <= wakeAtMs && this.alarmAtMs > nowMs) return;
    this.#planAlarm(Math.max(wakeAtMs, nowMs + 10));
  }

  #planAlarm(atMs: number): void {
    this.alarmAtMs = atMs;
    const token = ++this.#alarmToken;
    const { alarmJitterMs, alarmLate, alarmLost } = this.platform;
    if (this.random.chance(alarmLost)) return;
    const lateMs = this.random.chance(alarmLate)
      ? this.random.between(0, 60_000)
      : this.random.next() * alarmJitterMs;
    this.queue.at(atMs - this.clockOffsetMs + lateMs, () => this.#ring(token));
  }

  #ring(token: number): void {
    if (token !== this.#alarmToken) return;
    const notBeforeMs = Math.max(this.awayUntilMs, this.stalledUntilMs);
    if (this.queue.nowMs < notBeforeMs) {
      this.queue.at(notBeforeMs, () => this.#ring(token));
      return;
    }
    const dueAtMs = this.alarmAtMs;
    this.alarmAtMs = undefined;
    this.wake(dueAtMs);
    this.tick();
  }
}
