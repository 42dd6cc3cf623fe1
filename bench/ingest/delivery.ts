import { Agent, request, type IncomingMessage } from 'node:http';
import { Ack, BEAT_CONTENT_TYPE } from '../../protocol/ack.ts';
import { REGIONS, type SignedBeat } from './fleet.ts';

/** A beat not answered by then has failed. */
export const TIMEOUT_MS = 10_000;

/** `delivered`: every observer has recorded it. Anything else, a quorum included, is named and counts as an error. */
export type Outcome = 'delivered' | (string & {});

export interface Delivery {
  send(beat: SignedBeat): Promise<Outcome>;
  close(): void;
}

/** Sends beats as beacons do over HTTPS: each node over a connection of its own, kept from beat to beat. */
export class PostDelivery implements Delivery {
  readonly #url: URL;
  readonly #agents: readonly Agent[];

  constructor(url: string, nodes: number) {
    this.#url = new URL('/v1/beats', url);
    this.#agents = Array.from({ length: nodes }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  }

  async send(beat: SignedBeat): Promise<Outcome> {
    const agent = this.#agents[beat.node];
    if (agent === undefined) throw new Error(`no node ${beat.node}`);
    try {
      const { status, body } = await this.#post(beat.jws, agent);
      return status === 200 ? this.#judge(beat, body) : `${status} ${body.slice(0, 200)}`;
    } catch (error) {
      if (!(error instanceof Error)) return String(error);
      return error.name === 'AbortError' ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message;
    }
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }

  #judge(beat: SignedBeat, body: string): Outcome {
    const ack = Ack.parse(JSON.parse(body));
    if (ack.digest !== beat.digest) return 'an acknowledgement of another beat';
    if (ack.recordedBy.length === REGIONS.length) return 'delivered';
    return `recorded by ${ack.recordedBy.length} of ${REGIONS.length}: ${JSON.stringify(ack.missing)}`;
  }

  #post(jws: string, agent: Agent): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(
        this.#url,
        {
          method: 'POST',
          agent,
          // From now on, not from when the node's connection is free.
          signal: AbortSignal.timeout(TIMEOUT_MS),
          headers: {
            'content-type': BEAT_CONTENT_TYPE,
            'content-length': Buffer.byteLength(jws),
            'user-agent': 'farpulse-node-beacon/0.1.0',
          },
        },
        (response: IncomingMessage) => {
          let body = '';
          response.setEncoding('utf8');
          response.on('data', (text: string) => (body += text));
          response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
          response.on('error', reject);
        },
      );
      sent.on('error', reject);
      sent.end(jws);
    });
  }
}
