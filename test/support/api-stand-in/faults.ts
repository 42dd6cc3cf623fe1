import type { ApiRequest } from './api.ts';

/** What goes wrong with a request. */
export interface Fault {
  /** Answer with this instead; the request is not carried out. */
  readonly answer?: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    /** Text is sent as text, all else as JSON. */
    readonly body?: unknown;
  };
  /** Cut the connection: before the request is carried out, or after, so that only its answer is lost. */
  readonly reset?: 'before' | 'after';
  /** Wait that long before anything else. */
  readonly delayMs?: number;
}

interface Armed {
  readonly fault: Fault;
  readonly concerns: (request: ApiRequest) => boolean;
  left: number;
}

/** Makes coming requests fail. The oldest fault that concerns a request and is not used up is taken. */
export class Faults {
  #armed: Armed[] = [];

  /** @param times how many requests; `Infinity` until `clear()` */
  next(fault: Fault, times = 1, concerns: (request: ApiRequest) => boolean = () => true): void {
    this.#armed.push({ fault, concerns, left: times });
  }

  clear(): void {
    this.#armed = [];
  }

  take(request: ApiRequest): Fault | undefined {
    const armed = this.#armed.find(({ concerns, left }) => left > 0 && concerns(request));
    if (armed === undefined) return undefined;
    armed.left -= 1;
    return armed.fault;
  }
}
