import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import tls, { type SecureContext } from 'node:tls';
import type { Log } from '../log.ts';
import { codeOf, whyOf } from '../text.ts';

/** Where distributions keep the roots that their administrators manage: Debian and Alpine, Red Hat, SUSE, others. */
const SYSTEM_BUNDLES: readonly string[] = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/cert.pem',
];

const PEM = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/s;
const EVERY_PEM = new RegExp(PEM, 'gs');

interface TrustParts {
  /** Trusted besides the system's roots. */
  readonly caFile: string | undefined;
  readonly log: Log;
  /** The first that can be read holds the system's roots. */
  readonly systemBundles?: readonly string[];
}

/**
 * Whom the beacon believes: the system's certificate authorities (the runtime's own where the system has none) and
 * those of one more file. A file that cannot be used is a warning and never the end: it may appear later.
 */
export class Trust {
  readonly #parts: TrustParts;
  #context: SecureContext | undefined;
  #loading: Promise<SecureContext> | undefined;

  constructor(parts: TrustParts) {
    this.#parts = parts;
  }

  /** Read once, and parsed once: every connection shares it. */
  async context(): Promise<SecureContext> {
    if (this.#context !== undefined) return this.#context;
    this.#loading ??= this.#load();
    return this.#loading;
  }

  /** A handshake failed: perhaps the files have changed. The next connections still go by the old state, if need be. */
  reload(): void {
    this.#loading ??= this.#load();
  }

  async #load(): Promise<SecureContext> {
    const { caFile, systemBundles = SYSTEM_BUNDLES } = this.#parts;
    const extra = caFile === undefined ? [] : await this.#readExtra(caFile);
    let context: SecureContext | undefined;
    for (const path of systemBundles) context ??= await this.#believeBundle(path, extra);
    // Reached through the module: the list is built when it is touched, and most nodes never need it.
    this.#context = context ?? tls.createSecureContext({ ca: [...tls.rootCertificates, ...extra] });
    this.#loading = undefined;
    return this.#context;
  }

  async #believeBundle(path: string, extra: readonly string[]): Promise<SecureContext | undefined> {
    try {
      const bundle = await readFile(path, 'utf8');
      firstCertificate(bundle); // a broken one would make Node believe nobody, without a word
      return tls.createSecureContext({ ca: [bundle, ...extra] });
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') this.#complain(path, error);
      return undefined;
    }
  }

  async #readExtra(path: string): Promise<string[]> {
    try {
      const content = await readFile(path, 'utf8');
      firstCertificate(content);
      return (content.match(EVERY_PEM) ?? []).map((pem) => new X509Certificate(pem).toString());
    } catch (error) {
      this.#complain(path, error);
      return [];
    }
  }

  #complain(path: string, error: unknown): void {
    this.#parts.log.warn('ca-file-unusable', { file: path, why: whyOf(error) });
  }
}

/** @throws when there is none, or it is broken */
function firstCertificate(content: string): X509Certificate {
  const [pem] = PEM.exec(content) ?? [];
  if (pem === undefined) throw new Error('no certificate in it (PEM expected)');
  return new X509Certificate(pem);
}
