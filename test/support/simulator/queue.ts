export type Task = () => void;

/**
 * The virtual clock and what is to happen: a binary heap by time, and by order of entry within one instant.
 *
 * Nothing is ever taken out; a task that has lost its point finds that out when it runs.
 */
export class EventQueue {
  nowMs: number;
  #times = new Float64Array(1024);
  #orders = new Float64Array(1024);
  #tasks: Task[] = [];
  #size = 0;
  #entered = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** Runs the task at that time, or now if that is past. */
  at(atMs: number, task: Task): void {
    const time = atMs > this.nowMs ? atMs : this.nowMs;
    if (this.#size === this.#times.length) this.#grow();
    const order = this.#entered++;
    const times = this.#times;
    const orders = this.#orders;
    const tasks = this.#tasks;
    let index = this.#size++;
    // A later entry never goes before an equal time, so times alone decide on the way up.
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const parentTime = times[parent] as number;
      if (parentTime <= time) break;
      times[index] = parentTime;
      orders[index] = orders[parent] as number;
      tasks[index] = tasks[parent] as Task;
      index = parent;
    }
    times[index] = time;
    orders[index] = order;
    tasks[index] = task;
  }

  after(delayMs: number, task: Task): void {
    this.at(this.nowMs + delayMs, task);
  }

  /** Runs everything that is due before `endMs`, which is then the time. */
  runUntil(endMs: number): void {
    while (this.#size > 0) {
      const time = this.#times[0] as number;
      if (time >= endMs) break;
      const task = this.#tasks[0] as Task;
      this.#removeFirst();
      this.nowMs = time;
      task();
    }
    this.nowMs = endMs;
  }

  #removeFirst(): void {
    const times = this.#times;
    const orders = this.#orders;
    const tasks = this.#tasks;
    const size = --this.#size;
    const time = times[size] as number;
    const order = orders[size] as number;
    const task = tasks[size] as Task;
    tasks.length = size;
    if (size === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= size) break;
      const right = child + 1;
      if (right < size && isBefore(times, orders, right, child)) child = right;
      const childTime = times[child] as number;
      if (childTime > time || (childTime === time && (orders[child] as number) > order)) break;
      times[index] = childTime;
      orders[index] = orders[child] as number;
      tasks[index] = tasks[child] as Task;
      index = child;
    }
    times[index] = time;
    orders[index] = order;
    tasks[index] = task;
  }

  #grow(): void {
    const times = new Float64Array(this.#times.length * 2);
    times.set(this.#times);
    this.#times = times;
    const orders = new Float64Array(this.#orders.length * 2);
    orders.set(this.#orders);
    this.#orders = orders;
  }
}

function isBefore(times: Float64Array, orders: Float64Array, a: number, b: number): boolean {
  const timeA = times[a] as number;
  const timeB = times[b] as number;
  return timeA < timeB || (timeA === timeB && (orders[a] as number) < (orders[b] as number));
}
