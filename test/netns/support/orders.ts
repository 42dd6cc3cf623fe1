/** What the edge is told to do from now on. */
export interface Orders {
  readonly answers?: 'acks' | 'a portal page';
  readonly certificate?: 'edge' | 'portal';
  readonly proxy?: 'open' | '407' | 'silent';
  /** Each answer is the last on its connection. */
  readonly closes?: boolean;
}

export const PROXY_PORT = 3128;
export const CREDENTIALS = 'beacon:s3cr%40t';
