// The status of a plain HTTP endpoint on loopback, for health checks.
import { get } from 'node:http';

/** Whether the URL answers 200 within a second. Each look uses a connection of its own. */
export function answersOk(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    get(url, { agent: false, signal: AbortSignal.timeout(1_000) }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).once('error', () => resolve(false));
  });
}
