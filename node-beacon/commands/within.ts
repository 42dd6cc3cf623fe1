import { systemClock, withDeadline } from '../clock.ts';

/** One step of a command, given up after `ms`. */
export function within<T>(ms: number, work: (deadline: AbortSignal) => Promise<T>): Promise<T> {
  return withDeadline(systemClock, ms, new AbortController().signal, work);
}
