import type { z } from 'zod';
import { ClusterJson, NodeListJson } from '../../worker/http/status-json.ts';

export type ClusterView = z.infer<typeof ClusterJson>;
export type NodeView = z.infer<typeof NodeListJson>['nodes'][number];

/** Asks a farpulse for a cluster's status, as anybody with curl would. */
export class StatusClient {
  readonly #url: string;

  /** @param url of the Worker, without a path */
  constructor(url: string, cluster: string) {
    this.#url = `${url}/v1/clusters/${cluster}`;
  }

  async cluster(): Promise<ClusterView> {
    return ClusterJson.parse(await this.#get(''));
  }

  async nodes(): Promise<readonly NodeView[]> {
    return NodeListJson.parse(await this.#get('/nodes')).nodes;
  }

  async node(name: string): Promise<NodeView | undefined> {
    return (await this.nodes()).find((node) => node.name === name);
  }

  async #get(path: string): Promise<unknown> {
    const response = await fetch(this.#url + path, { signal: AbortSignal.timeout(5_000) });
    if (!response.ok) throw new Error(`GET ${this.#url}${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}
