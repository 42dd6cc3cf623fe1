import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

/*
 * Certificates for tests, made when they are needed: no private key lies in the repository, and nothing expires but
 * what should. Just enough DER (X.690) for X.509 v3 certificates (RFC 5280) on P-256.
 */

export interface Issued {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

interface Signer {
  readonly commonName: string;
  readonly key: KeyObject;
}

/** A certificate authority that nobody knows unless it is told of it. */
export class Authority {
  /** PEM. */
  readonly cert: string;
  readonly #signer: Signer;

  constructor(commonName: string) {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#signer = { commonName, key: privateKey };
    this.cert = certificate({
      commonName,
      publicKey,
      signer: this.#signer,
      notAfter: FAR,
      extensions: [IS_AUTHORITY],
    });
  }

  /** A server's certificate for these DNS names and, unless left out, 127.0.0.1. */
  issue(options: {
    readonly names: readonly string[];
    readonly loopback?: boolean;
    readonly expired?: boolean;
  }): Issued {
    const { names, loopback = true, expired = false } = options;
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const altNames = sequence(
      ...names.map((name) => der(0x82, Buffer.from(name))),
      ...(loopback ? [der(0x87, Buffer.from([127, 0, 0, 1]))] : []),
    );
    const cert = certificate({
      commonName: names[0] ?? 'server',
      publicKey,
      signer: this.#signer,
      notAfter: expired ? LONG_PAST : FAR,
      extensions: [sequence(SUBJECT_ALT_NAME, der(0x04, altNames))],
    });
    return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  }
}

const SINCE = '200101000000Z';
const LONG_PAST = '210101000000Z';
const FAR = '491231235959Z';

function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const length =
    content.length < 128
      ? [content.length]
      : content.length < 256
        ? [0x81, content.length]
        : [0x82, content.length >> 8, content.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

const sequence = (...items: readonly Uint8Array[]): Buffer => der(0x30, ...items);
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'));
const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
const COMMON_NAME = oid('550403');
const SUBJECT_ALT_NAME = oid('551d11');
const BASIC_CONSTRAINTS = oid('551d13');
const TRUE = der(0x01, Buffer.from([0xff]));
const IS_AUTHORITY = sequence(BASIC_CONSTRAINTS, TRUE, der(0x04, sequence(TRUE)));

function nameOf(commonName: string): Buffer {
  return sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(commonName)))));
}

let serialNumber = 0;

function certificate(of: {
  readonly commonName: string;
  readonly publicKey: KeyObject;
  readonly signer: Signer;
  readonly notAfter: string;
  readonly extensions: readonly Uint8Array[];
}): string {
  serialNumber += 1;
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, Buffer.from([serialNumber])),
    ECDSA_WITH_SHA256,
    nameOf(of.signer.commonName),
    sequence(der(0x17, Buffer.from(SINCE)), der(0x17, Buffer.from(of.notAfter))),
    nameOf(of.commonName),
    of.publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...of.extensions)),
  );
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, of.signer.key));
  const base64 = sequence(body, ECDSA_WITH_SHA256, signature).toString('base64');
  const lines = base64.match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}
